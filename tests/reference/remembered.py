"""Reference versions of `duelrank.kernels.remembered`: texts one by one, and documents in a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.remembered import HEAD

_BITS = 2**64


def recall(bucket: Ints, key: int) -> tuple[int, int, int]:
    """Return the rounds of a key's record, and where its model starts and stops."""
    numbers, at = bucket.tolist(), 0
    while numbers:
        size = HEAD + numbers[3]
        if numbers[0] == key:
            return numbers[2], at + HEAD, at + size
        numbers, at = numbers[size:], at + size
    return 0, 0, 0


def text_keys(letters: Any, ends: Ints) -> Ints:
    """Hash each text by FNV-1a, and finish as SplitMix64 does, in whole numbers modulo 2^64."""
    starts = [0, *ends.tolist()]
    texts = [bytes(letters[start:stop]) for start, stop in zip(starts, ends.tolist(), strict=False)]
    return np.array([_key(text) for text in texts], np.uint64).view(np.int64)


def _key(text: bytes) -> int:
    key = 0xCBF29CE484222325
    for letter in text:
        key = (key ^ letter) * 0x100000001B3 % _BITS
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 % _BITS
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB % _BITS
    return key ^ (key >> 31)


def boosts(known: Ints, counts: Floats, rate: float, documents: Ints, strength: float, doubt: float) -> Floats:
    """Look each document up; what is not known has no boost."""
    found = {key: (c - rate * v) / (v + doubt) for key, c, v in zip(known.tolist(), *counts.tolist(), strict=True)}
    return np.array([strength * found.get(document, 0.0) for document in documents.tolist()])


def count(
    known: Ints, counts: Floats, shown: Ints, clicks: Floats, seen: Floats, kept: float, most: int
) -> tuple[Ints, Floats]:
    """Let earlier counts fade, then take each document out that was seen, and put it back as the latest one."""
    place = {key: n for n, key in reversed(list(enumerate([*known.tolist(), *shown.tolist()])))}
    after = {key: (kept * c, kept * v) for key, c, v in zip(known.tolist(), *counts.tolist(), strict=True)}
    for position in reversed(range(len(shown))):
        if clicks[position] or seen[position]:
            c, v = after.pop(int(shown[position]), (0.0, 0.0))
            after[int(shown[position])] = c + clicks[position], v + (1.0 if clicks[position] else seen[position])
    last = list(after.items())[-most:]
    return (
        np.array([place[key] for key, _ in last], np.int64),
        np.array([pair for _, pair in last], np.float64).reshape(-1, 2).T,
    )
