"""The values of `duelrank.guard` by their definitions, slowly: what they are tested against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["e_value", "evidence", "half_width", "likelihood_ratio"]


def likelihood_ratio(alternative: float, margin: float, won: bool) -> float:
    """Return how much likelier an outcome is with an alternative, scaled down for the margin, than with ½ − margin."""
    p, p0 = alternative * (1.0 - 2.0 * margin), 0.5 - margin
    return p / p0 if won else (1.0 - p) / (1.0 - p0)


def evidence(alternative: float, margin: float, won: Sequence[bool]) -> float:
    """Return a detector's evidence for one alternative: the products of ratios since each time at which harm may have begun."""
    ratios = [likelihood_ratio(alternative, margin, each) for each in won]
    return math.fsum(math.prod(ratios[start:]) for start in range(len(ratios)))


def half_width(n: NDArray[Any], level: float, rho: float = 100.0) -> NDArray[np.float64]:
    """Return how far the band of a confidence sequence goes to either side after n lists: its formula as it is published."""
    v = n / 4
    found: NDArray[np.float64] = np.sqrt((v + rho) * np.log((v + rho) / (rho * level**2))) / n
    return found


def e_value(wins: int, losses: int) -> Fraction:
    """Return the e-value of "wins more than half", exactly: Σ C(n+1, j) / ((n + 1) C(n, wins)) over j from 0 to wins."""
    n = wins + losses
    return Fraction(sum(math.comb(n + 1, j) for j in range(wins + 1)), (n + 1) * math.comb(n, wins))
