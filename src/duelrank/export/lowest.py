"""How low the scores of a linear model can get in Lucene's arithmetic, and what must be added to keep them from 0 down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duelrank.export.rules import Term
from duelrank.normalisation import MinMax

__all__ = ["lowest_score", "sufficient_offset"]


def lowest_score(summands: Sequence[Term]) -> float | None:
    """Return the least score of documents whose features are in their min-max ranges or missing; None where unknown.

    A missing value is 0 before it is scaled, which may well be outside of the range.
    """
    lowest = 0.0
    for each in summands:
        if each.weight != 0.0:
            if not isinstance(each.scaling, MinMax):
                return None
            weight = float(np.float32(each.weight))
            lowest += min(weight * value for value in _extremes(each.scaling))
    return lowest


def sufficient_offset(summands: Sequence[Term], lowest: float) -> float:
    """Return the least float32 that, as one more summand, keeps the float32 sum of all from below 0."""
    if lowest >= 0.0:
        return 0.0
    # A sum of n products is off by at most n·u/(1 − n·u) times the sum of their sizes, u = 2^-24 (Higham 2002, §3.1).
    n = len(summands) + 1
    error = n * 2.0**-24 / (1.0 - n * 2.0**-24)
    sizes = sum(abs(each.weight) * max(map(abs, _extremes(each.scaling))) for each in summands if each.weight != 0.0)
    with np.errstate(over="ignore"):  # infinite where there is no such number
        least = np.float32((-lowest + error * sizes * (1.0 + 2.0**-23)) / (1.0 - error))
    return float(np.nextafter(least, np.float32(np.inf)))


def _extremes(scaling: object) -> tuple[float, float]:
    """The least and largest scaled value, as float32 arithmetic has it: rounding keeps the order, so 0 and 1 are exact."""
    assert isinstance(scaling, MinMax)
    minimum, maximum = np.float32(scaling.minimum), np.float32(scaling.maximum)
    missing = float((np.float32(0.0) - minimum) / (maximum - minimum))
    return min(0.0, missing), max(1.0, missing)
