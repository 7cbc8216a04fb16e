"""Regression trees equal to a model, and the RankLib format."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.export.base import Format, register_format
from duelrank.export.model import LinearModel, Pieces, Term, check_single_precision, finite, inputs_of, pieces_of, terms

MAX_ERROR_HELP = (
    "How much a tree may be off from its feature's curve; needed for ramps only, as trees hold steps exactly."
)

#: The most steps of one tree.
LARGEST = 10_000

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Staircase:
    """A function of one feature that is level between thresholds.

    Parameters
    ----------
    name
        Of the feature.
    number
        Its place among the features of the model, from 1.
    thresholds
        (n,) ascending, which single precision holds exactly.
    heights
        (n + 1,) of values up to the first threshold, behind it, and so on.
    error
        How far it is at most from the curve that it stands for.
    """

    name: str
    number: int
    thresholds: NDArray[np.float64]
    heights: NDArray[np.float64]
    error: float

    def tree(self, split: Callable[[float, T, T], T], leaf: Callable[[float], T]) -> T:
        """Return a balanced tree; ``split(threshold, left, right)`` has the values up to the threshold on the left."""

        def grown(first: int, last: int) -> T:
            if first == last:
                return leaf(float(self.heights[first]))
            middle = (first + last) // 2
            return split(float(self.thresholds[middle]), grown(first, middle), grown(middle + 1, last))

        return grown(0, len(self.thresholds))


def staircases(model: LinearModel, engine: str, max_error: float | None) -> list[Staircase]:
    """Return one staircase for each feature that counts, one level one where none does, or refuse with the reason."""
    if max_error is not None and finite(max_error, "max_error") <= 0.0:
        raise InvalidValue(f"max_error is a number above 0, got {max_error!r}")
    curves = pieces_of(model, inputs_of(model, engine), engine, np.float64)
    if max_error is None and not all(pieces.is_step.all() for pieces in curves):
        raise InvalidValue(
            f"{engine} has no curves, only decision trees, which are level between thresholds: give max_error, by how much each "
            "feature's part of the score may be off, or learn with steps, which trees hold exactly; vespa, onnx and json take "
            "this model as it is"
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
    """Return a sentence about the error that trees were made with, None where they are exact."""
    error, total = max(each.error for each in found), sum(each.error for each in found)
    return f"at most {_up(error)} for each feature, {_up(total)} for a score" if error else None


def _levels(name: str, pieces: Pieces, max_error: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return thresholds, heights and the error of the staircase with the fewest steps that stays within ``max_error``.

    Values are taken in from the left for as long as they are within twice the error of each other; the level is their middle.
    Thresholds are rounded down to single precision, so each value of single precision stays on its side.
    """
    walk = _Walk(name, max_error)
    height = 0.0
    for low, high, rise in zip(pieces.low.tolist(), pieces.high.tolist(), pieces.rise.tolist(), strict=True):
        walk.climb(low, high, height, height + rise)
        height += rise
    return walk.finished()


class _Walk:
    """A walk along a curve, from the left, that puts thresholds where a level no longer holds."""

    def __init__(self, name: str, max_error: float) -> None:
        self.name, self.span = name, 2.0 * max_error
        self.least = self.largest = 0.0
        self.error, self.cuts = 0.0, 0
        self.thresholds: list[float] = []
        self.heights: list[float] = []

    def climb(self, low: float, high: float, bottom: float, top: float) -> None:
        """Go straight from one point to another; a step where both have the same value."""
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
        """End a level at a threshold; of two levels without a number of single precision between them the later stays."""
        rounded = _down(threshold)
        if self.thresholds and self.thresholds[-1] == rounded:
            return
        self.thresholds.append(rounded)
        self._level()

    def _count(self) -> None:
        self.cuts += 1
        if self.cuts > LARGEST:
            raise InvalidValue(
                f"the tree of feature {self.name!r} would have more than {LARGEST:,} steps: max_error is too small for it"
            )

    def _level(self) -> None:
        self.heights.append(0.5 * self.least + 0.5 * self.largest)
        self.error = max(self.error, 0.5 * self.largest - 0.5 * self.least)

    def finished(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return thresholds, heights and error."""
        self._level()
        first = int(self.thresholds[:1] == [-math.inf])  # no number of single precision is up to it, or above the last
        last = len(self.thresholds) - int(self.thresholds[-1:] == [_down(math.inf)])
        return np.array(self.thresholds[first:last]), np.array(self.heights[first : last + 1]), self.error


def _up(value: float) -> str:
    """Return six digits of a number, rounded up."""
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(value))):.6g}"


def _down(value: float) -> float:
    """Return the largest number of single precision that is not above a value."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return float(single if float(single) <= value < math.inf else np.nextafter(single, np.float32(-np.inf)))


ENGINE = "RankLib"


@register_format("ranklib")
@dataclass(frozen=True)
class RankLib(Format):
    """RankLib text, also for model/ranklib.

    The features are numbered from 1, in their order. A linear model is ``Coordinate Ascent``, the scales folded into the weights;
    that ranker has no bias, so its scores are those of the model up to a constant, which does not change any order. With an offset
    it is ``Linear Regression``, and its scores are those of the model plus the offset. Any other model is an ensemble of trees, one
    for each feature, as ``LambdaMART`` has them.

    Examples
    --------
    >>> from duelrank.export import LinearModel, export
    >>> model = LinearModel("shop", 7, ("bm25", "vector"), [0.75, 0.25])
    >>> text = export(model, "ranklib").decode()
    >>> text.splitlines()[-1]
    '1:0.75 2:0.25'
    """

    media_type = "text/plain"
    suffix = ".txt"

    offset: Annotated[
        float | None, "Constant added to all scores; it makes the ranker of a linear model a Linear Regression."
    ] = None
    max_error: Annotated[float | None, MAX_ERROR_HELP] = None

    def write(self, model: LinearModel) -> str:
        """Return the text that RankLib loads."""
        return self._linear(model) if model.is_linear else self._trees(model)

    def _linear(self, model: LinearModel) -> str:
        pairs, bias = [], finite(0.0 if self.offset is None else self.offset, "the offset")
        for number, each in enumerate(terms(model, ENGINE), 1):
            shift, scale = (each.scaling.shift, each.scaling.scale) if each.scaling else (0.0, 1.0)
            weight = finite(each.weight / scale, f"the weight of {each.name!r}, divided by its scale,")
            pairs.append(f"{number}:{weight!r}")
            bias -= weight * shift
        if self.offset is not None:
            pairs.insert(0, f"0:{finite(bias, 'the bias')!r}")
        ranker = "Coordinate Ascent" if self.offset is None else "Linear Regression"
        return "\n".join([*_head(ranker, model), " ".join(pairs)]) + "\n"

    def _trees(self, model: LinearModel) -> str:
        found = staircases(model, ENGINE, self.max_error)
        error = error_of(found)
        if self.offset is not None:
            constant = np.array([finite(self.offset, "the offset")])
            found = [*found, Staircase("offset", 0, np.empty(0), constant, 0.0)]
        head = [*_head("LambdaMART", model), *([f"## Error = {error}"] if error else [])]
        trees = [_tree(number, each) for number, each in enumerate(found, 1)]
        return "\n".join([*head, "", "<ensemble>", *map(_indented, trees), "</ensemble>"]) + "\n"


def _head(ranker: str, model: LinearModel) -> list[str]:
    return [f"## {ranker}", f"## Model = {model.versioned_name}", f"## Features = {json.dumps(model.features)}"]


def _tree(number: int, staircase: Staircase) -> str:
    def split(threshold: float, left: str, right: str) -> str:
        sides = (
            f'<split pos="{side}">\n{_indented(own)}\n</split>' for side, own in (("left", left), ("right", right))
        )
        feature = f"<feature> {staircase.number} </feature>\n<threshold> {threshold!r} </threshold>"
        return "\n".join([feature, *sides])

    root = staircase.tree(split, lambda height: f"<output> {height!r} </output>")
    return f'<tree id="{number}" weight="1.0">\n{_indented(_split(root))}\n</tree>'


def _split(content: str) -> str:
    return f"<split>\n{_indented(content)}\n</split>"


def _indented(text: str) -> str:
    return "\n".join(f"\t{line}" for line in text.split("\n"))
