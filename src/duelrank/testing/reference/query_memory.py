"""Slow twin of `duelrank.kernels.query_memory`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.query_memory import HEAD

Ints = NDArray[np.int64]


def recall(bucket: Ints, key: int) -> tuple[int, int, int]:
    """Rounds of a key's record, and where its model starts and stops: unpack record after record."""
    numbers, at = bucket.tolist(), 0
    while numbers:
        size = HEAD + numbers[3]
        if numbers[0] == key:
            return numbers[2], at + HEAD, at + size
        numbers, at = numbers[size:], at + size
    return 0, 0, 0
