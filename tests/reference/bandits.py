"""Reference versions of `duelrank.kernels.bandits`: the formulas of the papers, with a bisection, and batches as sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.bandits import ALL_CLICKED, ALL_SEEN, BATCH, CLICKED, POSITIONS, SEEN, STAGE
from duelrank.kernels.random import permutation


def _divergence(p: float, q: float) -> float:
    return sum(a * math.log(a / b) if b else math.inf for a, b in ((p, q), (1.0 - p, 1.0 - q)) if a > 0.0)


def kl_upper(mean: float, radius: float) -> float:
    """Return the largest q with KL(mean ‖ q) ≤ radius, by bisection."""
    low, high = mean, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _divergence(mean, middle) <= radius else (low, middle)
    return low if radius > 0.0 else mean


def kl_budget(t: float) -> float:
    """Return the larger of 0 and log t + 3 log log t."""
    return 0.0 if t <= 1.0 else max(0.0, math.log(t) + 3.0 * math.log(math.log(t)))


def ucb1(model: Ints, rounds: int) -> Floats:
    """Return the mean plus √(1.5 · log rounds / seen)."""
    pairs = model.T.tolist()
    return np.array([c / n + math.sqrt(1.5 * math.log(max(rounds, 1)) / n) if n else math.inf for n, c in pairs])


def kl_ucb(model: Ints, rounds: int) -> Floats:
    """Return the largest plausible mean of each document."""
    return np.array([kl_upper(c / n, kl_budget(rounds + 1) / n) if n else math.inf for n, c in model.T.tolist()])


def count(model: Ints, ranking: Ints, clicks: Any, examined: int) -> Ints:
    """Add one to each seen document, and one to each clicked document."""
    after = model.copy()
    after[0, ranking[:examined]] += 1
    after[1, ranking[:examined]] += clicks[:examined]
    return after


def stage_length(stage: int, horizon: int) -> int:
    """Return ⌈16 · 4^stage · log T⌉."""
    return max(1, math.ceil(16.0 * 4.0**stage * math.log(horizon)))


def _batches(model: Ints) -> dict[int, list[int]]:
    """Return the documents of each batch, by its first position."""
    return {
        first: np.flatnonzero(model[BATCH] == first).tolist() for first in np.flatnonzero(model[POSITIONS]).tolist()
    }


def least_counts(model: Ints) -> Ints:
    """Return the least count of each batch, at its first position."""
    least = np.full(model.shape[1], np.iinfo(np.int64).max)
    for first, documents in _batches(model).items():
        least[first] = model[SEEN, documents].min()
    return least


def complete(model: Ints, horizon: int) -> int:
    """Return the first batch whose documents were all counted often enough."""
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
