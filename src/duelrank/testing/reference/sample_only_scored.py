"""Slow twins of `duelrank.kernels.sample_only_scored`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.leaving import MISSING


def credit(ranks: NDArray[np.int64], clicks: Any, tau: float) -> NDArray[np.float64]:
    """Rank the shown documents again by each ranker, then add up the clicked ones' 1/r^τ."""
    again = ranks.argsort(axis=1).argsort(axis=1) + 1.0
    points = np.where(ranks < MISSING, again**-tau, 0.0)
    return np.asarray(points[:, clicks].sum(axis=1))
