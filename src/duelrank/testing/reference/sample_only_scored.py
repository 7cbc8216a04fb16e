"""Slow twins of `duelrank.kernels.sample_only_scored`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.leaving import MISSING


def credit(ranks: NDArray[np.int64], gains: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """Rank the shown documents again by each ranker, then add up 1/r^τ times the gains."""
    again = ranks.argsort(axis=1).argsort(axis=1) + 1.0
    points = np.where(ranks < MISSING, again**-tau, 0.0)
    return np.asarray(points @ gains)
