"""Models of many queries, packed into buckets of a bounded memory that forgets the longest unused first.

A bucket is a flat int64 array of records (key, last use, rounds, size of the model, model), the longest unused first. The
directory has a column per bucket: how many records it holds, and when the first of them was last used.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HEAD = 4  # numbers of a record before its model
UNUSED = np.iinfo(np.int64).max  # the last use of an empty bucket's first record


@njit(cache=True)
def recall(bucket: Ints, key: int) -> tuple[int, int, int]:
    """Return the rounds of a key's record and where its model starts and stops; zeros where the key is unknown."""
    at = 0
    while at < bucket.shape[0]:
        stop = at + HEAD + bucket[at + 3]
        if bucket[at] == key:
            return bucket[at + 2], at + HEAD, stop
        at = stop
    return 0, 0, 0


@njit(cache=True)
def remember(
    directory: Ints, number: int, bucket: Ints, key: int, used: int, rounds: int, model: Ints
) -> tuple[Ints, Ints]:
    """Return the directory and the bucket of that number with the key's record, new or in place of its old one, at the end."""
    _, start, stop = recall(bucket, key)
    known = stop > 0
    old = stop - start + HEAD if known else 0
    kept = bucket.shape[0] - old
    after = np.empty(kept + HEAD + model.size, np.int64)
    before = start - HEAD if known else kept
    after[:before] = bucket[:before]
    after[before:kept] = bucket[before + old :]
    after[kept], after[kept + 1], after[kept + 2], after[kept + 3] = key, used, rounds, model.size
    after[kept + HEAD :] = model.ravel()
    changed = directory.copy()
    changed[0, number] += 0 if known else 1
    changed[1, number] = after[1]
    return changed, after


@njit(cache=True)
def surplus(directory: Ints, most: int) -> int:
    """Return which bucket holds the longest unused of all records where there are more than allowed, else −1."""
    if np.sum(directory[0]) <= most:
        return -1
    return int(np.argmin(directory[1]))


@njit(cache=True)
def forget(directory: Ints, number: int, bucket: Ints) -> tuple[Ints, Ints]:
    """Return the directory and the bucket of that number without the bucket's longest unused record."""
    after = bucket[HEAD + bucket[3] :].copy()
    changed = directory.copy()
    changed[0, number] -= 1
    changed[1, number] = after[1] if after.shape[0] else UNUSED
    return changed, after
