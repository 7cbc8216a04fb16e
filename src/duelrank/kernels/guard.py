"""Long streams of compared lists, and what a guard makes of them: when it raises an alarm, and whether it is ever wrong.

`duelrank.guard` has the same as values for one list at a time; these loops are for the many millions of lists that it takes
to see whether promises about averages are kept.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.core.compiling import kernel
from duelrank.kernels.elementary import log
from duelrank.kernels.multileaving import team_draft_credit as credit
from duelrank.kernels.multileaving import team_draft_leave as leave
from duelrank.kernels.random import permutation, uniform

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@kernel
def equal_rankers(n_documents: int, chances: Floats, size: int, stream: NDArray[np.uint64]) -> tuple[Flags, int]:
    """Compare two random rankings by team draft until ``size`` lists are decisive; return which were wins, and how many lists.

    The user clicks at position i with probability chances[i], whatever is there, so that neither ranking can be better.
    """
    won = np.empty(size, np.bool_)
    rankings = np.empty((2, n_documents), np.int64)
    clicks = np.empty(chances.shape[0])
    decisive = lists = 0
    while decisive < size:
        for i in range(2):
            rankings[i] = permutation(stream, n_documents)
        _, teams = leave(rankings, chances.shape[0], stream)
        for position in range(chances.shape[0]):
            clicks[position] = uniform(stream) < chances[position]
        clicked = credit(teams, clicks, 2)
        lists += 1
        if clicked[0] != clicked[1]:
            won[decisive] = clicked[1] > clicked[0]
            decisive += 1
    return won, lists


@kernel
def outcomes(chances: Floats, stream: NDArray[np.uint64]) -> Flags:
    """Draw one decisive list for each chance to win."""
    won = np.empty(chances.shape[0], np.bool_)
    for i in range(chances.shape[0]):
        won[i] = uniform(stream) < chances[i]
    return won


@kernel
def detect(
    evidence: Floats, alternatives: Floats, margin: float, most: float, threshold: float, won: Flags
) -> tuple[int, float]:
    """Update a detector's evidence in place, list by list, until an alarm; return how many lists it took, and the statistic.

    Where there is no alarm, it takes one list more than there are. The numbers are those of `Detector.update`, to the bit.
    """
    allowed = 1.0 - 2.0 * margin
    statistic = 0.0
    for i in range(won.shape[0]):
        total = 0.0
        for k in range(alternatives.shape[0]):
            p = alternatives[k] * allowed
            ratio = p / (0.5 * allowed) if won[i] else (1.0 - p) / (1.0 - 0.5 * allowed)
            evidence[k] = min((evidence[k] + 1.0) * ratio, most)
            total += evidence[k]
        statistic = total / alternatives.shape[0]
        if statistic >= threshold:
            return i + 1, statistic
    return won.shape[0] + 1, statistic


@kernel
def first_miss(won: Flags, chances: Floats, rho: float, level: float) -> int:
    """Return after how many lists a confidence sequence first misses the mean chance to win so far; one more than all for never."""
    wins = total = 0.0
    for i in range(won.shape[0]):
        n = i + 1.0
        wins += won[i]
        total += chances[i]
        spread = n / 4.0 + rho
        half = math.sqrt(spread * (log(spread / rho) - 2.0 * log(level)))
        if abs(wins - total) > half:
            return i + 1
    return won.shape[0] + 1


@kernel
def highest_e_value(won: Flags) -> float:
    """Return the highest e-value of "wins more than half" that a stream ever reaches, from 1 before its first list.

    By integration by parts, a win turns e into (2 (wins + 1) e + 1) / (n + 2) and a loss into (2 (losses + 1) e − 1) / (n + 2),
    with the counts before it.
    """
    value = highest = 1.0
    counts = np.zeros(2)
    for i in range(won.shape[0]):
        side = 1 if won[i] else 0
        value = (2.0 * (counts[side] + 1.0) * value + (1.0 if won[i] else -1.0)) / (i + 2.0)
        counts[side] += 1.0
        highest = max(highest, value)
    return highest
