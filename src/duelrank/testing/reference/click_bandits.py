"""Slow twins of `duelrank.kernels.click_bandits`: the papers' formulas, with a bisection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _divergence(p: float, q: float) -> float:
    return sum(a * math.log(a / b) if b else math.inf for a, b in ((p, q), (1.0 - p, 1.0 - q)) if a > 0.0)


def kl_upper(mean: float, radius: float) -> float:
    """Largest q with KL(mean ‖ q) ≤ radius, by bisection."""
    low, high = mean, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _divergence(mean, middle) <= radius else (low, middle)
    return low if radius > 0.0 else mean


def kl_budget(t: float) -> float:
    """The larger of 0 and log t + 3 log log t."""
    return 0.0 if t <= 1.0 else max(0.0, math.log(t) + 3.0 * math.log(math.log(t)))


def ucb1(model: Ints, rounds: int) -> Floats:
    """Mean plus √(1.5 · log rounds / seen)."""
    pairs = model.T.tolist()
    return np.array([c / n + math.sqrt(1.5 * math.log(max(rounds, 1)) / n) if n else math.inf for n, c in pairs])


def kl_ucb(model: Ints, rounds: int) -> Floats:
    """Largest plausible mean of each document."""
    return np.array([kl_upper(c / n, kl_budget(rounds + 1) / n) if n else math.inf for n, c in model.T.tolist()])


def count(model: Ints, ranking: Ints, clicks: Any, examined: int) -> Ints:
    """Add one to what was seen, and one to what was clicked."""
    after = model.copy()
    after[0, ranking[:examined]] += 1
    after[1, ranking[:examined]] += clicks[:examined]
    return after
