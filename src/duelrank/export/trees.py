"""Regression trees for engines without curves: one staircase per feature that approximates its curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.export.decomposition import Pieces, Term, check_single_precision, finite, inputs_of, pieces_of
from duelrank.export.model import LinearModel

T = TypeVar("T")

MAX_ERROR_HELP = (
    "Maximum difference between a tree and its feature's curve; needed for ramps only, trees represent steps exactly."
)
#: Maximum number of steps of one tree.
MOST_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class Staircase:
    """A function of one feature that is constant between thresholds.

    Parameters
    ----------
    name
        Name of the feature.
    number
        Number of the feature in the model, from 1.
    thresholds
        (n,) numbers in ascending order that single precision represents exactly.
    heights
        (n + 1,) function values: up to and including the first threshold, then up to the second, and so on.
    error
        Maximum difference from the curve.
    """

    name: str
    number: int
    thresholds: NDArray[np.float64]
    heights: NDArray[np.float64]
    error: float

    def tree(self, split: Callable[[float, T, T], T], leaf: Callable[[float], T]) -> T:
        """Return a balanced tree; values up to and including a threshold go to the left of ``split(threshold, left, right)``."""

        def grown(first: int, last: int) -> T:
            if first == last:
                return leaf(float(self.heights[first]))
            middle = (first + last) // 2
            return split(float(self.thresholds[middle]), grown(first, middle), grown(middle + 1, last))

        return grown(0, len(self.thresholds))


def staircases(model: LinearModel, engine: str, max_error: float | None) -> list[Staircase]:
    """Return one staircase for each feature that contributes to the score, or a constant one if none does.

    `InvalidValue` is raised, with the reason, if the engine cannot compute the model.
    """
    if max_error is not None and finite(max_error, "max_error") <= 0.0:
        raise InvalidValue(f"max_error must be above 0, got {max_error!r}")
    curves = pieces_of(model, inputs_of(model, engine), engine, np.float64)
    if max_error is None and not all(pieces.is_step.all() for pieces in curves):
        raise InvalidValue(
            f"{engine} has no curves, only decision trees, which are constant between thresholds: give max_error, the maximum "
            "error of each feature's part of the score, or learn with steps, which trees represent exactly; vespa, onnx and json "
            "support this model without error"
        )
    found = []
    for number, (name, pieces) in enumerate(zip(model.features, curves, strict=True), 1):
        thresholds, heights, error = _levels(name, pieces, 0.0 if pieces.is_step.all() else max_error or 0.0)
        if len(thresholds) or error > 0.0:
            found.append(Staircase(name, number, thresholds, heights, error))
    check_single_precision(
        [Term(each.name, height, None) for each in found for height in each.heights.tolist()] or [Term("", 0.0, None)],
        engine,
    )
    return found or [Staircase(model.features[0], 1, np.empty(0), np.zeros(1), 0.0)]


def error_of(found: Sequence[Staircase]) -> str | None:
    """Return a description of the error of the trees, or None if they are exact."""
    error, total = max(each.error for each in found), sum(each.error for each in found)
    return f"at most {_up(error)} for each feature, {_up(total)} for a score" if error else None


def _levels(name: str, pieces: Pieces, max_error: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return thresholds, heights and the error of the staircase with the fewest steps that stays within ``max_error``.

    From left to right, a level continues as long as all its values are within twice the error of each other; its height is their
    middle. Thresholds are rounded down to single precision, so that every value of single precision stays on its side.
    """
    walk = _Walk(name, max_error)
    height = 0.0
    for low, high, rise in zip(pieces.low.tolist(), pieces.high.tolist(), pieces.rise.tolist(), strict=True):
        walk.climb(low, high, height, height + rise)
        height += rise
    return walk.finished()


class _Walk:
    """Follows a curve from left to right, and starts a new level when the current one would exceed the error."""

    def __init__(self, name: str, max_error: float) -> None:
        self.name, self.span = name, 2.0 * max_error
        self.least = self.largest = 0.0
        self.error, self.cuts = 0.0, 0
        self.thresholds: list[float] = []
        self.heights: list[float] = []

    def climb(self, low: float, high: float, bottom: float, top: float) -> None:
        """Follow a straight line from one point to another, or a step if low and high are equal."""
        while max(self.largest, top) - min(self.least, top) > self.span:
            self._count()
            cut, height = high, top
            if low < high:
                height = self.least + self.span if top > bottom else self.largest - self.span
                cut = low + (high - low) * ((height - bottom) / (top - bottom))
                self.least, self.largest = min(self.least, height), max(self.largest, height)
            self._end(cut)
            self.least = self.largest = height
        self.least, self.largest = min(self.least, top), max(self.largest, top)

    def _end(self, threshold: float) -> None:
        """End a level at a threshold; a level without a number of single precision is dropped."""
        rounded = _down(threshold)
        if self.thresholds and self.thresholds[-1] == rounded:
            return
        self.thresholds.append(rounded)
        self._level()

    def _count(self) -> None:
        self.cuts += 1
        if self.cuts > MOST_STEPS:
            raise InvalidValue(
                f"the tree of feature {self.name!r} would have more than {MOST_STEPS:,} steps: max_error is too small for it"
            )

    def _level(self) -> None:
        self.heights.append(0.5 * self.least + 0.5 * self.largest)
        self.error = max(self.error, 0.5 * self.largest - 0.5 * self.least)

    def finished(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return thresholds, heights and error."""
        self._level()
        first = int(
            self.thresholds[:1] == [-math.inf]
        )  # no number of single precision is below it, nor above the largest
        last = len(self.thresholds) - int(self.thresholds[-1:] == [_down(math.inf)])
        return np.array(self.thresholds[first:last]), np.array(self.heights[first : last + 1]), self.error


def _up(value: float) -> str:
    """Return a number with six digits, rounded up."""
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(value))):.6g}"


def _down(value: float) -> float:
    """Return the largest number of single precision that is at most the value."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return float(single if float(single) <= value < math.inf else np.nextafter(single, np.float32(-np.inf)))
