"""Who won a comparison, where that points, and how well a ranker places documents that were clicked before."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# An expected preference within rounding of zero is no preference.
MARGIN = 1e-12


@kernel
def winners(credit: Floats) -> Ints:
    """Indices, from 0, of the candidates with more credit than the current ranker (entry 0 of the credit)."""
    return np.flatnonzero(credit[1:] > credit[0] + MARGIN)


@kernel
def mean_direction(directions: Floats, chosen: Ints, unit: bool) -> Floats:
    """Mean of the chosen directions, scaled to length 1 if asked to; zero where none was chosen."""
    mean = np.zeros(directions.shape[1])
    if chosen.shape[0] == 0:
        return mean
    for i in chosen:
        mean += directions[i]
    mean /= chosen.shape[0]
    length = math.sqrt(np.sum(mean * mean))
    return mean / length if unit and length > 0.0 else mean


@kernel
def weighted_direction(directions: Floats, credit: Floats, losers: bool, unit: bool) -> Floats:
    """Mean of the directions, weighted by how much more credit each has than the current ranker (entry 0 of the credit).

    The weights' sizes sum to 1; those within rounding of zero, and without losers the negative ones, count as zero.
    """
    mean, size = np.zeros(directions.shape[1]), 0.0
    for i in range(directions.shape[0]):
        margin = credit[i + 1] - credit[0]
        if margin > MARGIN or (losers and margin < -MARGIN):
            mean += margin * directions[i]
            size += abs(margin)
    if size == 0.0:
        return mean
    mean /= size
    length = math.sqrt(np.sum(mean * mean))
    return mean / length if unit and length > 0.0 else mean


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
def replayed_sums(rankings: Ints, clicked: NDArray[np.bool_]) -> Floats:
    """Σ 1/position of the clicked documents (a flag per document) in each ranking."""
    sums = np.zeros(rankings.shape[0])
    for i in range(rankings.shape[0]):
        for position in range(rankings.shape[1]):
            if clicked[rankings[i, position]]:
                sums[i] += 1.0 / (position + 1.0)
    return sums
