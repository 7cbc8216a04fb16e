"""Kernels of inference: the winners of a comparison, the direction that they imply, and replays of difficult queries."""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Flags, Floats, Ints

MARGIN = 1e-12  # an expected preference of at most this size is a rounding error


@kernel
def winners(credit: Floats) -> Ints:
    """Return the indices, from 0, of the candidates with more credit than the current ranker (entry 0 of the credit)."""
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
    """Divide a vector in place; a divisor of zero changes nothing."""
    if by > 0.0:
        for k in range(vector.shape[0]):
            vector[k] /= by


@kernel
def mean_direction(directions: Floats, chosen: Ints, unit: bool) -> Floats:
    """Return the mean of the chosen directions, scaled to length 1 if ``unit``; zero if none was chosen."""
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
    """Return the mean of the directions, weighted by the credit of each minus that of the current ranker (entry 0 of the credit).

    The absolute weights sum to 1; weights within rounding of zero, and without losers the negative ones, count as zero.
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
def last_click(clicks: Flags) -> int:
    """Return the position, from 1, of the lowest click; 0 if there is none."""
    for position in range(clicks.shape[0], 0, -1):
        if clicks[position - 1]:
            return position
    return 0


@kernel
def reciprocal_sum(clicks: Flags) -> float:
    """Return Σ 1/position over the clicked positions: small if all clicks are low in the list."""
    total = 0.0
    for position in range(clicks.shape[0]):
        if clicks[position]:
            total += 1.0 / (position + 1.0)
    return total


@kernel
def replayed_sums(rankings: Ints, gains: Floats) -> Floats:
    """Return Σ gain/position over the documents in each ranking; the gain of a document without a click is 0."""
    sums = np.zeros(rankings.shape[0])
    for i in range(rankings.shape[0]):
        for position in range(rankings.shape[1]):
            sums[i] += gains[rankings[i, position]] / (position + 1.0)
    return sums
