"""Reference versions of `duelrank.kernels.updates`."""

from __future__ import annotations

import numpy as np

from duelrank.kernels import Floats


def is_zero(vector: Floats) -> bool:
    """Return whether all entries are zero."""
    return all(value == 0.0 for value in vector)


def moved(weights: Floats, gradient: Floats, rate: float) -> Floats:
    """Return weights + rate · gradient."""
    return np.asarray(weights + rate * gradient)


def distance(one: Floats, other: Floats) -> float:
    """Return the Euclidean distance of two vectors."""
    return float(np.linalg.norm(one - other))


def discounted_sum(rewards: Floats, discount: float) -> float:
    """Return Σ discount^t · reward_t, t from 0."""
    return float(sum(discount**t * reward for t, reward in enumerate(rewards)))
