"""Kernels of updates: steps of the weights, and sums over impressions."""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats


@kernel
def is_zero(vector: Floats) -> bool:
    """Return whether all entries are zero."""
    n_others = 0
    for k in range(vector.shape[0]):
        n_others += vector[k] != 0.0
    return n_others == 0


@kernel
def moved(weights: Floats, gradient: Floats, rate: float) -> Floats:
    """Return weights + rate · gradient."""
    after = np.empty(weights.shape[0])
    for k in range(after.shape[0]):
        after[k] = weights[k] + rate * gradient[k]
    return after


@kernel
def distance(one: Floats, other: Floats) -> float:
    """Return the Euclidean distance of two vectors."""
    total = 0.0
    for k in range(one.shape[0]):
        total += (one[k] - other[k]) ** 2
    return math.sqrt(total)


@kernel
def discounted_sum(rewards: Floats, discount: float) -> float:
    """Return Σ discount^t · reward_t, t from 0."""
    total = 0.0
    for t in range(rewards.shape[0] - 1, -1, -1):
        total = rewards[t] + discount * total
    return total
