"""Who won a comparison, where that points, and how well a ranker places documents that were clicked before."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.core.compiling import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# An expected preference within rounding of zero is no preference.
MARGIN = 1e-12


@kernel
def winners(credit: Floats) -> Ints:
    """Indices, from 0, of the candidates with more credit than the current ranker (entry 0 of the credit)."""
    n = 0
    for i in range(1, credit.shape[0]):
        n += credit[i] > credit[0] + MARGIN
    chosen, n = np.empty(n, np.int64), 0
    for i in range(1, credit.shape[0]):
        if credit[i] > credit[0] + MARGIN:
            chosen[n] = i - 1
            n += 1
    return chosen


@kernel
def _length(vector: Floats) -> float:
    total = 0.0
    for k in range(vector.shape[0]):
        total += vector[k] * vector[k]
    return math.sqrt(total)


@kernel
def _divide(vector: Floats, by: float) -> None:
    """Divide a vector in place; by zero it stays as it is."""
    if by > 0.0:
        for k in range(vector.shape[0]):
            vector[k] /= by


@kernel
def mean_direction(directions: Floats, chosen: Ints, unit: bool) -> Floats:
    """Mean of the chosen directions, scaled to length 1 if asked to; zero where none was chosen."""
    mean = np.empty(directions.shape[1])
    for k in range(mean.shape[0]):
        mean[k] = 0.0
    for i in chosen:
        for k in range(mean.shape[0]):
            mean[k] += directions[i, k]
    _divide(mean, float(chosen.shape[0]))
    if unit:
        _divide(mean, _length(mean))
    return mean


@kernel
def weighted_direction(directions: Floats, credit: Floats, losers: bool, unit: bool) -> Floats:
    """Mean of the directions, weighted by how much more credit each has than the current ranker (entry 0 of the credit).

    The weights' sizes sum to 1; those within rounding of zero, and without losers the negative ones, count as zero.
    """
    mean, size = np.zeros(directions.shape[1]), 0.0
    for i in range(directions.shape[0]):
        margin = credit[i + 1] - credit[0]
        if margin > MARGIN or (losers and margin < -MARGIN):
            for k in range(mean.shape[0]):
                mean[k] += margin * directions[i, k]
            size += abs(margin)
    _divide(mean, size)
    if unit:
        _divide(mean, _length(mean))
    return mean


@kernel
def last_click(clicks: NDArray[np.bool_]) -> int:
    """Position, from 1, of the lowest click; 0 where there is none."""
    for position in range(clicks.shape[0], 0, -1):
        if clicks[position - 1]:
            return position
    return 0


@kernel
def reciprocal_sum(clicks: NDArray[np.bool_]) -> float:
    """Σ 1/position over the clicked positions: small where users had to go far down."""
    total = 0.0
    for position in range(clicks.shape[0]):
        if clicks[position]:
            total += 1.0 / (position + 1.0)
    return total


@kernel
def replayed_sums(rankings: Ints, gains: Floats) -> Floats:
    """Σ gain/position of the documents (a gain for each, 0 where it was not clicked) in each ranking."""
    sums = np.zeros(rankings.shape[0])
    for i in range(rankings.shape[0]):
        for position in range(rankings.shape[1]):
            sums[i] += gains[rankings[i, position]] / (position + 1.0)
    return sums
