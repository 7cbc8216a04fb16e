"""Decomposes a model's score into what search engines can compute: scaled inputs, weighted terms, and pieces of curves.

A linear model is a sum of `Term`; any other one is a sum of curves, one per feature, each a sum of `Pieces` that rise from 0.
`Inputs` describe how raw values are scaled before that. Functions that take the name of an ``engine`` raise `InvalidValue` with
the reason if it cannot compute the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.registry import spell
from duelrank.export.model import LinearModel, Model
from duelrank.representation import (
    Chain,
    Curve,
    Fixed,
    MinMax,
    Missing,
    QueryRanks,
    QueryScaled,
    Raw,
    Representation,
    Scaling,
    Unscaled,
)
from duelrank.representation.fixed import Standard

Precision: TypeAlias = type[np.float32] | type[np.float64]

_CONSTANT = Standard(0.0, 0.0)


class Unrepresentable(InvalidValue):
    """A format cannot represent a model, whatever its weights and the options, because of its representation."""


@dataclass(frozen=True)
class Inputs:
    """The steps from raw values to the inputs of the curves.

    Parameters
    ----------
    within
        The steps within a query: `QueryScaled`, `QueryRanks`, both, or none.
    scalings
        The scaling of each feature after these steps. A scaling with scale 0 makes the feature constant.
    missing
        What replaces missing values before all steps, None for nothing.
    """

    within: tuple[Representation, ...]
    scalings: tuple[Scaling, ...]
    missing: Missing | None = None

    @property
    def scales(self) -> bool:
        """Whether any scaling changes anything."""
        return any(not isinstance(each, Unscaled) for each in self.scalings)


def inputs_of(model: Model, engine: str, within_query: bool = False, averages: bool = False) -> Inputs:
    """Return the inputs of a model's curves.

    They are exact up to a constant per query: a fixed scaling of all values does not change their positions within the query.

    Parameters
    ----------
    within_query
        Whether the engine can compare the documents of a query; other engines compute one formula for all queries.
    averages
        Whether it can also average the values that are known in a query.
    """
    within: tuple[Representation, ...] = ()
    scalings: tuple[Scaling, ...] = (Unscaled(),) * len(model.features)
    missing, stages = None, _stages(model)
    for stage in stages:
        if isinstance(stage, Missing):
            missing = stage
            if not averages and np.isnan(stage.numbers(len(model.features))[_may_lack(stage, model)]).any():
                raise Unrepresentable(_no_average(engine))
        elif isinstance(stage, Fixed):
            scalings = tuple(map(_combined, scalings, stage.scalings))
        elif isinstance(stage, QueryScaled | QueryRanks):
            if not within_query:
                too_early = _waits_for_knots(model) and stage is stages[-1]
                raise InvalidValue(_too_early(engine, model)) if too_early else Unrepresentable(_refusal(engine, stage))
            within = _then(within, stage)
            scalings = tuple(each if each.scale == 0.0 else Unscaled() for each in scalings)
        elif not isinstance(stage, Raw):
            able = "; json can represent it" if isinstance(model, LinearModel) else ""
            raise Unrepresentable(
                f"{engine} cannot compute {spell(stage)} before other representations or a scorer{able}"
            )
    return Inputs(within, scalings, missing)


def _may_lack(missing: Missing, model: Model) -> NDArray[np.bool_]:
    return np.isin(model.features, list(missing.lacking(model.features)))


def _no_average(engine: str) -> str:
    return (
        f"{engine} cannot compute a neutral value for what is missing, the mean of the other documents of the query; onnx (one "
        "batch = one query) and json support this model; other formats need a number for each feature in missing"
    )


def _stages(model: Model) -> Sequence[Representation]:
    """Return the representations before the curves or the scorer, in order: without the last one if it makes curves."""
    found = _flat(model.representation)
    if _waits_for_knots(model):
        return [*found[:-1], QueryScaled()]
    last = found[-1]
    return (
        found
        if not isinstance(model, LinearModel) or isinstance(last, Missing | Raw | Fixed | QueryScaled | QueryRanks)
        else found[:-1]
    )


def _waits_for_knots(model: Model) -> bool:
    return model.knots is not None and not model.has_knots


def _flat(representation: Representation) -> list[Representation]:
    if isinstance(representation, Chain):
        return [*_flat(representation.first), *_flat(representation.then)]
    return [representation]


def _combined(first: Scaling, then: Scaling) -> Scaling:
    """Return the composition of two scalings; it is constant if one of them is."""
    if first.scale == 0.0 or then.scale == 0.0:
        return _CONSTANT
    if isinstance(first, Unscaled) or isinstance(then, Unscaled):
        return then if isinstance(first, Unscaled) else first
    return Standard(first.shift + first.scale * then.shift, first.scale * then.scale)


def _then(within: tuple[Representation, ...], stage: Representation) -> tuple[Representation, ...]:
    """Return the steps within a query, simplified: ranks do not depend on scales, and scaling twice equals scaling once."""
    return (stage,) if isinstance(stage, QueryRanks) or within[-1:] in ((), (stage,)) else (*within, stage)


def _too_early(engine: str, model: Model) -> str:
    return (
        f"{engine} cannot compute this model yet: until its first knots are placed, {spell(model.representation)} weighs positions "
        "within the range of each query, which differs from query to query; export it again after it has learned from more lists"
    )


def _refusal(engine: str, stage: Representation) -> str:
    if isinstance(stage, QueryRanks):
        return (
            f"{engine} cannot rank the values within a query: it scores each document alone, but the score of this model depends "
            "on the other documents of the query; onnx (one batch = one query) and json support this model"
        )
    return (
        f"{engine} cannot normalise per query: it scales all queries by the same numbers, but in this model the "
        "scale (largest − least value among a query's documents) differs from query to query, and with it the order; "
        "vespa (global-phase), onnx (one batch = one query) and json support this model"
    )


@dataclass(frozen=True)
class Term:
    """One summand of the score: weight × scaled value of the feature; None: the value is not scaled."""

    name: str
    weight: float
    scaling: Scaling | None


def terms(model: LinearModel, engine: str) -> list[Term]:
    """Return the summands of a linear model that is the same for all queries."""
    return terms_of(model, inputs_of(model, engine))


def terms_of(model: LinearModel, inputs: Inputs) -> list[Term]:
    """Return the summands of a linear model over its inputs.

    A feature that was constant (scale 0) contributes 0: it gets weight 0 and no scaling, because no engine accepts scale 0.
    """
    found = []
    for name, weight, scaling in zip(model.features, model.weights.tolist(), inputs.scalings, strict=True):
        known = None if isinstance(scaling, Unscaled) or scaling.scale == 0.0 else scaling
        found.append(Term(name, weight if scaling.scale > 0.0 else 0.0, known))
    return found


def finite(value: float, what: str) -> float:
    """Return a number, or raise `InvalidValue` if it is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValue(f"{what} must be a finite number, got {value!r}")
    return float(value)


def check_single_precision(summands: Sequence[Term], engine: str) -> None:
    """Raise `InvalidValue` if rounding to float32, as the engine does, would change more than the last digits."""
    single = np.finfo(np.float32)
    largest = max(abs(each.weight) for each in summands)
    if largest > float(single.max) or 0.0 < largest < float(single.tiny):
        raise InvalidValue(
            f"{engine} stores weights in single precision, which cannot represent the largest weight, {largest!r}"
        )
    for each in summands:
        if each.scaling is not None and not _survives(each.scaling):
            raise InvalidValue(
                f"{engine} stores normalisers in single precision, in which {each.scaling!r} of feature {each.name!r} "
                "has no positive, finite scale; rescale that feature before learning"
            )


def _survives(scaling: Scaling) -> bool:
    with np.errstate(all="ignore"):
        if isinstance(scaling, MinMax):
            scale = np.float32(scaling.maximum) - np.float32(scaling.minimum)
        else:
            scale = np.float32(scaling.scale)
        shift = np.float32(scaling.shift)
    return bool(0.0 < scale < np.inf and np.isfinite(shift))


def minimum_score(summands: Sequence[Term]) -> float | None:
    """Return the minimum score of documents whose features are in their min-max ranges or missing; None if it is unknown.

    A missing value is 0 before scaling, which may be outside of the range.
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
    """Return the least and largest scaled value in float32 arithmetic; rounding preserves the order, so 0 and 1 are exact."""
    assert isinstance(scaling, MinMax)
    minimum, maximum = np.float32(scaling.minimum), np.float32(scaling.maximum)
    missing = float((np.float32(0.0) - minimum) / (maximum - minimum))
    return min(0.0, missing), max(1.0, missing)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of one feature's curve, in ascending order; each is 0 up to ``low`` and ``rise`` from ``high`` on.

    Parameters
    ----------
    low, high
        Start and end of the slope, in float64 numbers that the requested precision represents exactly. If both are equal, the piece
        is a step: 0 up to and including that value.
    rise
        The contribution to the score after the slope; never 0.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rise: NDArray[np.float64]

    @property
    def is_step(self) -> NDArray[np.bool_]:
        """Which pieces are steps."""
        return np.equal(self.low, self.high)

    def __len__(self) -> int:
        return len(self.rise)


def pieces_of(model: LinearModel, inputs: Inputs, engine: str, precision: Precision) -> list[Pieces]:
    """Return the curves of all features as functions of raw values, or of the results of the steps within a query.

    Steps are exact: a number of this precision is above a step if and only if it is above it in the model, which scales in double
    precision.
    """
    found = []
    for name, curve, scaling in zip(model.features, model.curves, inputs.scalings, strict=True):
        pieces = _pieces(curve)
        if scaling.scale == 0.0 or not len(pieces):
            found.append(Pieces(*np.empty((3, 0))))
            continue
        step = pieces.is_step
        with np.errstate(over="ignore"):
            low = _rounded(pieces.low * scaling.scale + scaling.shift, precision)
            high = _rounded(pieces.high * scaling.scale + scaling.shift, precision)
            width = _rounded(high - low, precision)
        if not (np.isfinite(width) & (width > 0.0))[~step].all():
            raise InvalidValue(
                f"{engine} stores numbers in {np.dtype(precision).name}, in which a piece of the curve of {name!r} has no "
                "positive, finite width; rescale that feature before learning"
            )
        low[step] = high[step] = _last_up_to(pieces.low[step], scaling, precision)
        live = ~step | ((low > -np.inf) & (low < np.finfo(precision).max))  # a step beyond all numbers has no effect
        found.append(Pieces(low[live], high[live], pieces.rise[live]))
    return found


def _pieces(curve: Curve) -> Pieces:
    """Return the pieces of a curve as functions of its inputs."""
    rise = np.diff(curve.heights)
    if curve.shape == "steps":
        low = high = curve.values[1:]
    else:
        low, high = curve.values[:-1], curve.values[1:]
        jump = low == high  # at the value of a jump a curve is halfway up: half of the step is just below
        low = np.concatenate([low, np.nextafter(low[jump], -np.inf)])
        high = np.concatenate([high, np.nextafter(high[jump], -np.inf)])
        half = np.where(jump, 0.5 * rise, rise)
        rise = np.concatenate([half, half[jump]])
    keep = np.flatnonzero(rise != 0.0)
    order = keep[np.argsort(low[keep], kind="stable")]
    return Pieces(low[order], high[order], rise[order])


def _last_up_to(limits: NDArray[np.float64], scaling: Scaling, precision: Precision) -> NDArray[np.float64]:
    """Return the largest number of a precision whose scaled value is at most each limit, or −inf if there is none."""
    bits = np.int32 if precision is np.float32 else np.int64
    most = int(np.array(np.finfo(precision).max).view(bits))
    low, high = np.full(limits.shape, -most - 1, np.int64), np.full(limits.shape, most, np.int64)
    while (low < high).any():
        middle = (low | high) - ((low ^ high) >> 1)  # rounded up, without overflow
        with np.errstate(over="ignore"):
            fits = (_numbered(middle, precision) - scaling.shift) / scaling.scale <= limits
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.where(low < -most, -np.inf, _numbered(np.maximum(low, -most), precision))


def _rounded(values: NDArray[np.float64], precision: Precision) -> NDArray[np.float64]:
    return values.astype(precision).astype(np.float64)


def _numbered(places: NDArray[np.int64], precision: Precision) -> NDArray[np.float64]:
    """Return the numbers of a precision by their index in ascending order; 0.0 has index 0."""
    bits = np.int32 if precision is np.float32 else np.int64
    sizes = np.abs(places).astype(bits).view(precision).astype(np.float64)
    return np.where(places < 0, -sizes, sizes)
