"""Tests the difference between two algorithms, and computes confidence intervals of means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.statistics import student_quantile, student_test
from duelrank.experiments.results.frame import Frame

__all__ = ["Paired", "half_width", "half_widths", "paired"]

_PAIR = ("dataset", "user", "fold", "seed")
_ROUNDING = 1e-12  # differences that vary by less than this, relative to the values subtracted, count as equal


@dataclass(frozen=True)
class Paired:
    """A paired t-test of an algorithm against its base.

    Parameters
    ----------
    n
        Number of cells that both have.
    difference
        Mean over those cells of the algorithm minus the base; NaN if there are none.
    t, p
        Student's t and its two-sided p-value. Both are NaN if the test is undefined: fewer than two cells, or all
        differences equal but not zero. If all differences are zero, t = 0 and p = 1.
    """

    n: int
    difference: float
    t: float
    p: float


def paired(frame: Frame, algorithm: str, base: str, measure: str) -> Paired:
    """Test an algorithm against another over the (fold, seed) cells, of each data set and user, that both have.

    Runs with the same seed use the same queries and users, so paired differences have less variance than the difference of means.
    """
    ours, theirs = _by_cell(frame, algorithm, measure), _by_cell(frame, base, measure)
    common = sorted(ours.keys() & theirs.keys())
    return _test(np.array([ours[cell] for cell in common]), np.array([theirs[cell] for cell in common]))


def half_width(values: Sequence[float] | NDArray[np.float64], level: float = 0.95) -> float:
    """Return the half width of Student's confidence interval of a mean; NaN for fewer than two values."""
    return float(half_widths(np.asarray(values, float)[:, np.newaxis], level)[0])


def half_widths(values: NDArray[np.float64], level: float = 0.95) -> NDArray[np.float64]:
    """Return the half width for each column of (runs, columns)."""
    n, columns = values.shape
    if n < 2:
        return np.full(columns, nan)
    widths: NDArray[np.float64] = student_quantile(level, n - 1) * np.std(values, axis=0, ddof=1) / sqrt(n)
    return widths


def _by_cell(frame: Frame, algorithm: str, measure: str) -> dict[tuple[Any, ...], float]:
    runs = frame.where(algorithm=algorithm)
    cells = list(zip(*(runs[name].tolist() for name in _PAIR), strict=True))
    if len(set(cells)) < len(cells):
        raise InvalidValue(
            f"{algorithm} has several runs with the same fold and seed: select comparable runs with `where`"
        )
    return dict(zip(cells, runs[measure].tolist(), strict=True))


def _test(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> Paired:
    difference = ours - theirs
    n = len(difference)
    if n < 2:
        return Paired(n, float(difference[0]) if n else nan, nan, nan)
    mean = float(difference.mean())
    scale = max(np.abs(ours).max(), np.abs(theirs).max())
    if np.ptp(difference) <= _ROUNDING * scale:
        same = abs(mean) <= _ROUNDING * scale
        return Paired(n, mean, 0.0 if same else nan, 1.0 if same else nan)
    t = mean / float(difference.std(ddof=1)) * sqrt(n)
    return Paired(n, mean, t, student_test(t, n - 1))
