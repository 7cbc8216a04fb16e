"""Slow twins of `duelrank.kernels.query_memory`: a bucket is unpacked into a list of records, changed, and packed again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.query_memory import HEAD, UNUSED

Ints = NDArray[np.int64]


def _unpack(bucket: Ints) -> list[list[int]]:
    numbers, records = bucket.tolist(), []
    while numbers:
        size = HEAD + numbers[3]
        records.append(numbers[:size])
        numbers = numbers[size:]
    return records


def _pack(records: list[list[int]]) -> Ints:
    return np.array([number for record in records for number in record], np.int64)


def _entered(directory: Ints, number: int, records: list[list[int]]) -> Ints:
    changed = directory.copy()
    changed[:, number] = len(records), records[0][1] if records else UNUSED
    return changed


def recall(bucket: Ints, key: int) -> tuple[int, int, int]:
    """Rounds of a key's record, and where its model starts and stops."""
    at = 0
    for record in _unpack(bucket):
        if record[0] == key:
            return record[2], at + HEAD, at + len(record)
        at += len(record)
    return 0, 0, 0


def remember(
    directory: Ints, number: int, bucket: Ints, key: int, used: int, rounds: int, model: Ints
) -> tuple[Ints, Ints]:
    """Take the key's record out, and add the new one at the end."""
    records = [record for record in _unpack(bucket) if record[0] != key]
    records.append([int(key), used, rounds, model.size, *model.ravel().tolist()])
    return _entered(directory, number, records), _pack(records)


def surplus(directory: Ints, most: int) -> Any:
    """Which bucket has the longest unused record, where there are too many."""
    return -1 if directory[0].sum() <= most else directory[1].tolist().index(min(directory[1]))


def forget(directory: Ints, number: int, bucket: Ints) -> tuple[Ints, Ints]:
    """Drop the first record."""
    records = _unpack(bucket)[1:]
    return _entered(directory, number, records), _pack(records)
