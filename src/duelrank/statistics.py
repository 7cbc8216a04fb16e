"""Tests of whether one thing is better than another, and Holm's correction for making many of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, isnan, nan, sqrt

__all__ = ["holm", "mean_test", "sign_test"]


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p-value of the exact sign test: were wins and losses equally likely, how often would they differ as much.

    Examples
    --------
    >>> sign_test(9, 1) == 2 * (1 + 10) / 2**10
    True
    """
    if wins + losses == 0:
        return 1.0
    from scipy import stats  # takes most of a second, so only where a test is made

    return float(stats.binomtest(wins, wins + losses).pvalue)


def mean_test(n: int, total: float, squares: float) -> float:
    """Two-sided p-value of a mean being 0, from the sum of n values and the sum of their squares, for large n.

    NaN where there is nothing to judge by: fewer than two values, or all the same but not 0.

    Examples
    --------
    >>> round(mean_test(100, 20.0, 100.0), 3)
    0.042
    """
    if squares == 0.0:
        return 1.0
    spread = squares - total * total / n
    if n < 2 or spread <= 1e-12 * squares:
        return nan
    return erfc(abs(total) / sqrt(2.0 * n / (n - 1) * spread))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for being many, by Holm's step-down method.

    The i-th smallest of m, from i = 0, is multiplied by m − i, is at least as large as the corrected one before it, and at most
    1. A NaN stands for no test: it stays, and does not count among the m.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    tests = sorted((place for place, p in enumerate(p_values) if not isnan(p)), key=lambda place: p_values[place])
    corrected = [nan] * len(p_values)
    least = 0.0
    for rank, place in enumerate(tests):
        least = max(least, min(1.0, (len(tests) - rank) * p_values[place]))
        corrected[place] = least
    return corrected
