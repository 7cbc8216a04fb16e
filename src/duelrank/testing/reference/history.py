"""Slow twins of `duelrank.kernels.history`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.inference import MARGIN
from duelrank.kernels.random import below, uniform
from duelrank.testing.reference.probabilistic import preference, whole_gains

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def draw_chances(ranks: Ints, n_documents: int, tau: float) -> Floats:
    """P(the ranker draws the document shown at a position | those above are gone)."""
    masses = np.arange(1, n_documents + 1.0) ** -tau
    rows = [[masses[row[p]] / np.delete(masses, row[:p]).sum() for p in range(len(row))] for row in ranks]
    return np.array(rows).reshape(ranks.shape)


def log_probability(ranks: Ints, n_documents: int, tau: float) -> float:
    """Log of P(list | it was multileaved from these rankers)."""
    return float(np.log(draw_chances(ranks, n_documents, tau).mean(axis=0)).sum())


def replay(rankers: Floats, features: Floats, ranking: Ints, place: Ints, tau: float, chances: Floats) -> None:
    """Fill in P(each ranker draws the document shown at each position): rank all documents, then look."""
    ranks = []
    for weights in rankers:
        order = np.lexsort((place[: len(features)], -(features @ weights))).tolist()
        ranks.append([order.index(document) for document in ranking])
    chances[:, : len(ranking)] = draw_chances(np.array(ranks, np.int64), features.shape[0], tau)


def replayed_outcome(one: Floats, other: Floats, gains: Floats, log_source: float) -> tuple[float, float]:
    """Log of the importance weight of an earlier list, and the expected outcome given that list."""
    share = one / (one + other)
    log_weight = float(np.log((one + other) / 2).sum() - log_source)
    return log_weight, preference(share[gains > 0.0], 1.0 - share[gains > 0.0], whole_gains(gains))


def tournament(chances: Floats, gains: Floats, log_sources: Floats, repetitions: int, stream: Any) -> int:
    """Let random pairs meet on earlier lists drawn with replacement; the loser leaves."""
    left = list(range(chances.shape[1]))
    while len(left) > 1:
        i, j = below(stream, len(left)), below(stream, len(left) - 1)
        j += j >= i
        met = [below(stream, len(chances)) for _ in range(repetitions)]
        found = [replayed_outcome(chances[m, left[i]], chances[m, left[j]], gains[m], log_sources[m]) for m in met]
        weights, outcomes = np.array(found).T
        outcome = np.exp(weights - weights.max()) @ outcomes
        first_lost = uniform(stream) < 0.5 if abs(outcome) <= MARGIN else outcome < 0.0
        left[i if first_lost else j] = left[-1]
        left.pop()
    return left[0]
