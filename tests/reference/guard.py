"""Slow twins of `duelrank.kernels.guard`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.reference import multileaving as team_draft

from duelrank.kernels.random import permutation, uniform
from duelrank.testing.evidence import e_value, half_width, likelihood_ratio

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def equal_rankers(n_documents: int, chances: Floats, size: int, stream: Any) -> tuple[Flags, int]:
    """Compare two random rankings by team draft until ``size`` lists are decisive; return which were wins, and how many lists."""
    won: list[bool] = []
    lists = 0
    while len(won) < size:
        rankings = np.array([permutation(stream, n_documents) for _ in range(2)])
        _, teams = team_draft.team_draft_leave(rankings, len(chances), stream)
        clicks = np.array([uniform(stream) < chance for chance in chances])
        lead = np.sum(clicks & (teams == 1)) - np.sum(clicks & (teams == 0))
        won += [bool(lead > 0)] if lead else []
        lists += 1
    return np.array(won, bool), lists


def outcomes(chances: Floats, stream: Any) -> Flags:
    """Draw one decisive list for each chance to win."""
    return np.array([uniform(stream) < chance for chance in chances], bool)


def detect(
    evidence: Floats, alternatives: Floats, margin: float, most: float, threshold: float, won: Flags
) -> tuple[int, float]:
    """Update a detector's evidence in place, list by list, until an alarm; return how many lists it took, and the statistic."""
    for i, each in enumerate(won):
        ratios = [likelihood_ratio(p, margin, bool(each)) for p in alternatives]
        evidence[:] = np.minimum((evidence + 1.0) * ratios, most)
        if evidence.mean() >= threshold:
            return i + 1, float(evidence.mean())
    return len(won) + 1, float(evidence.mean()) if len(won) else 0.0


def first_miss(won: Flags, chances: Floats, rho: float, level: float) -> int:
    """Return after how many lists a confidence sequence first misses the mean chance to win so far; one more than all for never."""
    n = np.arange(1, len(won) + 1)
    misses = np.abs(np.cumsum(won) / n - np.cumsum(chances) / n) > half_width(n, level, rho)
    return int(np.argmax(misses)) + 1 if misses.any() else len(won) + 1


def highest_e_value(won: Flags) -> float:
    """Return the highest e-value of "wins more than half" that a stream ever reaches, from 1 before its first list."""
    wins = [0, *np.cumsum(won).tolist()]
    return float(max(e_value(w, n - w) for n, w in enumerate(wins)))
