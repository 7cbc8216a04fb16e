"""Computes p-values of significance tests, and Holm's correction for multiple tests."""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, exp, isnan, lgamma, log, nan, sqrt

__all__ = ["anytime_test", "holm", "mean_test", "sign_test"]

_PRIORS = (1.0, 10.0, 100.0, 1000.0)  # from large differences, found at once, to those of a few percent


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the exact sign test: the null hypothesis is that wins and losses are equally likely.

    Examples
    --------
    >>> sign_test(9, 1) == 2 * (1 + 10) / 2**10
    True
    """
    if wins + losses == 0:
        return 1.0
    from scipy import stats  # imported here, because the import takes most of a second

    return float(stats.binomtest(wins, wins + losses).pvalue)


def anytime_test(wins: int, losses: int) -> float:
    """Return a two-sided p-value that is valid whenever one looks: the null hypothesis is that wins and losses are equally likely.

    It is 1 / e, at most 1, where e says how much likelier the outcomes are, on average over chances to win, than with one half:
    2^n B(wins + a, losses + a) / B(a, a), the mean over a = 1, 10, 100 and 1,000. With equal rankers the probability that it is
    ever at or below α is at most α, however often one looks (Ville's inequality).

    Examples
    --------
    >>> round(anytime_test(9, 1), 3), round(anytime_test(13, 1), 3)
    (0.287, 0.046)
    """
    logs = [(wins + losses) * log(2.0) + _log_beta(wins + a, losses + a) - _log_beta(a, a) for a in _PRIORS]
    most = max(logs)
    log_e = most + log(sum(exp(each - most) for each in logs) / len(logs))
    return exp(-max(log_e, 0.0))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def mean_test(n: int, total: float, squares: float) -> float:
    """Return the two-sided p-value of a z-test of mean 0, from the sum of n values and the sum of their squares, for large n.

    It is NaN if the test is undefined: fewer than two values, or all values equal but not 0.

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
    """Correct p-values for multiple tests by Holm's step-down method.

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
