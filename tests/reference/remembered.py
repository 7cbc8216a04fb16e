"""Reference versions of `duelrank.kernels.remembered`: texts one by one, and documents in a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.random import below, uniform
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


def text_keys(letters: Any, lengths: Ints) -> Ints:
    """Hash each text by FNV-1a, and finish as SplitMix64 does, in whole numbers modulo 2^64."""
    ends = np.cumsum(lengths).tolist()
    texts = [bytes(letters[stop - length : stop]) for stop, length in zip(ends, lengths.tolist(), strict=True)]
    return np.array([_key(text) for text in texts], np.uint64).view(np.int64)


def _key(text: bytes) -> int:
    key = 0xCBF29CE484222325
    for letter in text:
        key = (key ^ letter) * 0x100000001B3 % _BITS
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 % _BITS
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB % _BITS
    return key ^ (key >> 31)


def newer_records(bucket: Ints, since: int) -> Ints:
    """Keep the records whose last use is after a time."""
    numbers, kept = bucket.tolist(), []
    while numbers:
        size = HEAD + numbers[3]
        kept += numbers[:size] if numbers[1] > since else []
        numbers = numbers[size:]
    return np.array(kept, np.int64)


def boosts(model: Ints, rate: float, documents: Ints, strength: float, doubt: float) -> Floats:
    """Look each document up; what is not known has no boost."""
    n = int(model[0])
    counts = model[1 + n : 1 + 3 * n].view(np.float64).reshape(2, n).tolist()
    found = {key: (c - rate * v) / (v + doubt) for key, c, v in zip(model[1 : 1 + n].tolist(), *counts, strict=True)}
    all_boosts = np.array([strength * found.get(document, 0.0) for document in documents.tolist()], np.float32)
    return all_boosts.astype(np.float64) if all_boosts.any() else np.empty(0)


def raised(boosts: Floats, model: Ints, documents: Ints, stream: Any) -> Floats:
    """Raise one of the documents with less than a view; each replaces the earlier choice with the right probability."""
    n = int(model[0])
    views = dict(zip(model[1 : 1 + n].tolist(), model[1 + 2 * n : 1 + 3 * n].view(np.float64).tolist(), strict=True))
    hardly_seen = [row for row, key in enumerate(documents.tolist()) if views.get(key, 0.0) < 1.0]
    found, chosen = boosts.copy(), [row for k, row in enumerate(hardly_seen, 1) if below(stream, k) == 0]
    found[chosen[-1:]] = max(0.0, *boosts.tolist(), 0.0)
    return found


def drawn(
    model: Ints, rate: float, documents: Ints, strength: float, doubt: float, curious: float, stream: Any
) -> Floats:
    """Toss a coin for a list with boosts."""
    found = boosts(model, rate, documents, strength, doubt)
    raises = found.size and curious and uniform(stream) < curious
    return raised(found, model, documents, stream) if raises else found


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
