"""Slow twins of `duelrank.kernels.batchrank`: batches as sets of documents, and the paper's steps one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.batchrank import ALL_CLICKED, ALL_SEEN, BATCH, CLICKED, POSITIONS, SEEN, STAGE
from duelrank.kernels.random import permutation

Ints = NDArray[np.int64]


def stage_length(stage: int, horizon: int) -> int:
    """⌈16 · 4^stage · log T⌉."""
    return max(1, math.ceil(16.0 * 4.0**stage * math.log(horizon)))


def _batches(model: Ints) -> dict[int, list[int]]:
    """The documents of each batch, by its first position."""
    return {
        first: np.flatnonzero(model[BATCH] == first).tolist() for first in np.flatnonzero(model[POSITIONS]).tolist()
    }


def least_counts(model: Ints) -> Ints:
    """The least count of each batch, at its first position."""
    least = np.full(model.shape[1], np.iinfo(np.int64).max)
    for first, documents in _batches(model).items():
        least[first] = model[SEEN, documents].min()
    return least


def complete(model: Ints, horizon: int) -> int:
    """The first batch whose documents were all counted often enough."""
    for first, documents in _batches(model).items():
        if model[SEEN, documents].min() >= stage_length(int(model[STAGE, first]), horizon):
            return first
    return -1


def display(model: Ints, length: int, stream: Any) -> tuple[Ints, Ints]:
    """Show the least counted documents of each batch in random order."""
    shuffled = permutation(stream, model.shape[1]).tolist()
    ranking: list[int] = []
    batches: list[tuple[int, int]] = []
    for first, documents in _batches(model).items():
        positions = int(model[POSITIONS, first])
        waiting = sorted(documents, key=lambda document: (model[SEEN, document], shuffled.index(document)))
        places = permutation(stream, positions).tolist()
        ranking += [waiting[places.index(place)] for place in range(positions)]
        batches += [(positions, int(model[STAGE, first]))] * positions
    ranking += [document for document in shuffled if document not in ranking]
    batches += [(0, 0)] * max(0, length - len(batches))
    return np.array(ranking[:length], np.int64), np.array(batches[:length], np.int64).T


def collect(model: Ints, ranking: Ints, clicks: Any, batches: Ints) -> Ints:
    """Count the clicks of each batch."""
    after = model.copy()
    for first, documents in _batches(model).items():
        positions, least = int(model[POSITIONS, first]), model[SEEN, documents].min()
        for place in range(first, min(first + positions, len(ranking))):
            document = ranking[place]
            same = tuple(batches[:, place]) == (positions, model[STAGE, first])
            if same and document in documents and model[SEEN, document] == least:
                after[[SEEN, ALL_SEEN], document] += 1
                after[[CLICKED, ALL_CLICKED], document] += clicks[place]
    return after
