"""Models of many queries, packed one after the other.

A bucket is a flat int64 array of records: key, time of the last use, rounds, size of the model, model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel

Ints = NDArray[np.int64]

HEAD = 4  # numbers of a record before its model


@kernel
def recall(bucket: Ints, key: int) -> tuple[int, int, int]:
    """Return the rounds of a key's record and where its model starts and stops; zeros where the key is unknown."""
    at = 0
    while at < bucket.shape[0]:
        stop = at + HEAD + bucket[at + 3]
        if bucket[at] == key:
            return bucket[at + 2], at + HEAD, stop
        at = stop
    return 0, 0, 0
