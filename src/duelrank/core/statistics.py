"""Computes p-values of significance tests, and Holm's correction for multiple tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from math import erfc, exp, isnan, lgamma, log, log1p, nan, sqrt

from duelrank.core.errors import InvalidValue


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the exact sign test: the null hypothesis is that wins and losses are equally likely.

    Examples
    --------
    >>> from duelrank.core.statistics import sign_test
    >>> round(sign_test(9, 1) * 2**10, 9)  # none or one loss in ten, or the same of wins: 2 · (1 + 10) of 2^10 outcomes
    22.0
    """
    fewer, more = sorted((wins, losses))
    return 1.0 if fewer == more else min(1.0, 2.0 * _beta_share(more, fewer + 1.0, 0.5, 0.5))


def student_test(t: float, freedom: float) -> float:
    """Return the two-sided p-value of Student's t with some degrees of freedom.

    Examples
    --------
    >>> from duelrank.core.statistics import student_test
    >>> round(student_test(2.776, 4), 3)
    0.05
    """
    if t == 0.0 or isnan(t):
        return 1.0 if t == 0.0 else nan
    ratio = t / sqrt(freedom)
    return _beta_share(freedom / 2.0, 0.5, 1.0 / (1.0 + ratio * ratio), 1.0 / (1.0 + 1.0 / ratio / ratio))


@lru_cache(maxsize=256)
def student_quantile(level: float, freedom: float) -> float:
    """Return the half-width of Student's confidence interval of this level around a mean, in standard errors.

    Examples
    --------
    >>> from duelrank.core.statistics import student_quantile
    >>> round(student_quantile(0.95, 4), 3)
    2.776
    """
    if not 0.0 < level < 1.0:
        raise InvalidValue(f"level must be between 0 and 1, got {level!r}")
    low, high = 0.0, 1.0
    while student_test(high, freedom) > 1.0 - level:
        low, high = high, 2.0 * high
    while low < (middle := (low + high) / 2.0) < high:  # until no float is between them
        low, high = (middle, high) if student_test(middle, freedom) > 1.0 - level else (low, middle)
    return high


def log_beta(a: float, b: float) -> float:
    """Return the logarithm of the beta function.

    Examples
    --------
    >>> from math import exp
    >>> from duelrank.core.statistics import log_beta
    >>> round(exp(log_beta(2.0, 3.0)), 9)  # 1! · 2! / 4!
    0.083333333
    """
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), for x below 1; ``rest`` is 1 − x, without cancellation."""
    if x == 0.0:
        return 0.0
    if x > (a + 1.0) / (a + b + 2.0):  # the fraction converges quickly on the other side
        return 1.0 - _beta_share(b, a, rest, x)
    logs = a * (log(x) if x < 0.5 else log1p(-rest)) + b * (log(rest) if rest < 0.5 else log1p(-x))
    return exp(logs - log_beta(a, b)) / (a * _beta_fraction(a, b, x))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function (DLMF 8.17.22) from its front, by Lentz's method."""
    value, upper, lower = 1.0, 1.0, 0.0
    for k in count(1):
        m = k // 2
        if k % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        lower, upper = 1.0 / (1.0 + term * lower), 1.0 + term / upper
        value *= upper * lower
        if abs(upper * lower - 1.0) < 1e-15:
            break
    return value


def mean_test(n: int, total: float, squares: float) -> float:
    """Return the two-sided p-value of a z-test of mean 0, from the sum of n values and the sum of their squares, for large n.

    It is NaN if the test is undefined: fewer than two values, or all values equal but not 0.

    Examples
    --------
    >>> from duelrank.core.statistics import mean_test
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
    """Correct p-values for multiple tests by Holm's step-down method.

    The i-th smallest of m p-values, from i = 0, is multiplied by m − i; it is at least the corrected one before it, and at most 1.
    A NaN means that there was no test: it stays, and does not count among the m.

    Examples
    --------
    >>> from duelrank.core.statistics import holm
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
