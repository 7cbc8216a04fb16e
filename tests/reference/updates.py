"""Slow twins of `duelrank.kernels.updates`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def is_zero(vector: Floats) -> bool:
    """Whether all entries are zero."""
    return all(value == 0.0 for value in vector)


def moved(weights: Floats, gradient: Floats, rate: float) -> Floats:
    """Return weights + rate · gradient."""
    return np.asarray(weights + rate * gradient)


def distance(one: Floats, other: Floats) -> float:
    """Euclidean distance of two vectors."""
    return float(np.linalg.norm(one - other))


def discounted_sum(rewards: Floats, discount: float) -> float:
    """Σ discount^t · reward_t, t from 0."""
    return float(sum(discount**t * reward for t, reward in enumerate(rewards)))
