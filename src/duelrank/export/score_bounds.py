"""The minimum score of a linear model in Lucene's arithmetic, and the offset that keeps all scores at 0 or above."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duelrank.export.terms import Term
from duelrank.representation import MinMax

__all__ = ["minimum_offset", "minimum_score"]


def minimum_score(summands: Sequence[Term]) -> float | None:
    """Return the minimum score of documents whose features are in their min-max ranges or missing; None if it is unknown.

    A missing value is 0 before it is scaled, which may well be outside of the range.
    """
    minimum = 0.0
    for each in summands:
        if each.weight != 0.0:
            if not isinstance(each.scaling, MinMax):
                return None
            weight = float(np.float32(each.weight))
            minimum += min(weight * value for value in _extremes(each.scaling))
    return minimum


def minimum_offset(summands: Sequence[Term], minimum: float) -> float:
    """Return the smallest float32 that, as one more term, keeps the float32 sum of all terms at 0 or above."""
    if minimum >= 0.0:
        return 0.0
    # A sum of n products is off by at most n·u/(1 − n·u) times the sum of their sizes, u = 2^-24 (Higham 2002, §3.1).
    n = len(summands) + 1
    error = n * 2.0**-24 / (1.0 - n * 2.0**-24)
    sizes = sum(abs(each.weight) * max(map(abs, _extremes(each.scaling))) for each in summands if each.weight != 0.0)
    with np.errstate(over="ignore"):  # infinite if float32 has no such number
        least = np.float32((-minimum + error * sizes * (1.0 + 2.0**-23)) / (1.0 - error))
    return float(np.nextafter(least, np.float32(np.inf)))


def _extremes(scaling: object) -> tuple[float, float]:
    """Return the least and largest scaled value in float32 arithmetic: rounding keeps the order, so 0 and 1 are exact."""
    assert isinstance(scaling, MinMax)
    minimum, maximum = np.float32(scaling.minimum), np.float32(scaling.maximum)
    missing = float((np.float32(0.0) - minimum) / (maximum - minimum))
    return min(0.0, missing), max(1.0, missing)
