"""Slow twins of `duelrank.kernels.gaps`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def count_gaps(clicks: Any, gaps: Floats, forgetting: float) -> Floats:
    """Look up from every position for the nearest click."""
    gaps = gaps.copy()
    for position in range(len(clicks)):
        above = np.flatnonzero(clicks[:position])
        column = min(position - above[-1], gaps.shape[1] - 1) if above.size else 0
        gaps[:, column] = forgetting * gaps[:, column] + [clicks[position], 1]
    return gaps


def reach(gaps: Floats, room: int, level: float) -> int:
    """Bayes for each position, from P(seen) = P(click) / attraction, down to the first that falls short."""
    rates = gaps[0] / gaps[1]
    attraction = rates[0]
    for gap in range(1, room + 1):
        rate = rates[min(gap, len(rates) - 1)]
        seen = 0.0 if rate == 0 else min(1.0, rate / attraction if attraction else 1.0)
        silent = seen * (1 - attraction) + (1 - seen)
        posterior = seen if seen in (0.0, 1.0) else seen * (1 - attraction) / silent
        if posterior < level:
            return gap - 1
    return room
