"""Slow twins of `duelrank.kernels.batchrank`: batches as sets of documents, and the paper's steps one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.batchrank import ALL_CLICKED, ALL_SEEN, BATCH, CLICKED, POSITIONS, SEEN, STAGE
from duelrank.kernels.random import permutation
from duelrank.testing.reference.click_bandits import kl_budget, kl_upper

Ints = NDArray[np.int64]


def stage_length(stage: int, horizon: int) -> int:
    """⌈16 · 4^stage · log T⌉."""
    return max(1, math.ceil(16.0 * 4.0**stage * math.log(horizon)))


def _batches(model: Ints) -> dict[int, list[int]]:
    """The documents of each batch, by its first position."""
    return {
        first: np.flatnonzero(model[BATCH] == first).tolist() for first in np.flatnonzero(model[POSITIONS]).tolist()
    }


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


def collect(model: Ints, ranking: Ints, clicks: Any, batches: Ints, horizon: int) -> Ints:
    """Count the clicks of each batch, then end the stages that are complete."""
    after = model.copy()
    for first, documents in _batches(model).items():
        positions, least = int(model[POSITIONS, first]), model[SEEN, documents].min()
        for place in range(first, min(first + positions, len(ranking))):
            document = ranking[place]
            same = tuple(batches[:, place]) == (positions, model[STAGE, first])
            if same and document in documents and model[SEEN, document] == least:
                after[[SEEN, ALL_SEEN], document] += 1
                after[[CLICKED, ALL_CLICKED], document] += clicks[place]
        if after[SEEN, documents].min() >= stage_length(int(model[STAGE, first]), horizon):
            _end_stage(after, first, documents, horizon)
    return after


def _end_stage(model: Ints, first: int, documents: list[int], horizon: int) -> None:
    seen, positions = int(model[SEEN, documents[0]]), int(model[POSITIONS, first])
    means = {document: model[CLICKED, document] / seen for document in documents}
    radius = kl_budget(horizon) / seen
    upper = {document: kl_upper(mean, radius) for document, mean in means.items()}
    lower = {document: min(mean, 1.0 - kl_upper(1.0 - mean, radius)) for document, mean in means.items()}
    order = sorted(documents, key=lambda document: -lower[document])
    splits = [k for k in range(1, positions) if lower[order[k - 1]] > max(upper[document] for document in order[k:])]
    if splits:
        split = max(splits)
        model[BATCH, order[split:]] = first + split
        model[POSITIONS, [first, first + split]] = split, positions - split
        model[STAGE, first] = 0
    else:
        model[BATCH, [document for document in documents if upper[document] < lower[order[positions - 1]]]] = -1
        model[STAGE, first] += 1
    model[SEEN, documents] = 0
    model[CLICKED, documents] = 0
