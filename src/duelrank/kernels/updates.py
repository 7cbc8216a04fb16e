"""Moving the weights."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel

Floats = NDArray[np.float64]


@kernel
def is_zero(vector: Floats) -> bool:
    """Whether all entries are zero."""
    return not np.any(vector)


@kernel
def moved(weights: Floats, gradient: Floats, rate: float) -> Floats:
    """Return weights + rate · gradient."""
    return weights + rate * gradient


@kernel
def distance(one: Floats, other: Floats) -> float:
    """Euclidean distance of two vectors."""
    return math.sqrt(np.sum((one - other) ** 2))


@kernel
def discounted_sum(rewards: Floats, discount: float) -> float:
    """Σ discount^t · reward_t, t from 0."""
    total = 0.0
    for t in range(rewards.shape[0] - 1, -1, -1):
        total = rewards[t] + discount * total
    return total
