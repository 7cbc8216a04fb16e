"""Draws the queries that the users of a run ask."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets import Fold
from duelrank.kernels.random import integers, uniform
from duelrank.types import Stream

__all__ = ["drawn_queries"]


def drawn_queries(fold: Fold, size: int, draws: Stream) -> NDArray[np.int64]:
    """Draw training queries with replacement: uniformly, or in proportion to the popularity that the fold defines."""
    drawn: NDArray[np.int64]
    if fold.popularity is None:
        drawn = integers(draws, len(fold.train), size)
    else:
        sums = np.cumsum(fold.popularity)
        chances = np.fromiter((uniform(draws) for _ in range(size)), np.float64, size)
        # The last share is exactly 1 and every draw is below it; "right" never selects a query of popularity 0.
        drawn = np.searchsorted(sums / sums[-1], chances, side="right")
    return drawn
