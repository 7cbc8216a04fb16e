"""Linear models: terms, pieces of curves, bounds of scores, and the JSON form."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue, ShapeMismatch
from duelrank.core.grammar import parse
from duelrank.core.registry import spell
from duelrank.core.snapshot import Snapshot
from duelrank.core.types import Memory, Query, Weights, frozen
from duelrank.core.validation import whole_number
from duelrank.kernels.ranking import linear_scores
from duelrank.representation import (
    Chain,
    Curve,
    Fixed,
    MinMax,
    QueryRanks,
    QueryScaled,
    Raw,
    Representation,
    Scaling,
    Unscaled,
)
from duelrank.representation.base import Domain, knots_of, with_knots
from duelrank.representation.fixed import Standard, read_representation, write_representation

KIND = "duelrank linear model"
FORMAT = 2

_KNOWN = {"name", "weights", "knots"}
MEANING = (
    "score = sum over features of weights · columns, where the representation makes the columns of a feature from its raw value "
    "(and from its knots, where it has any); higher is better"
)


def model_to_json(model: LinearModel) -> str:
    """Return everything about a model as JSON text."""
    weights = model.weights.reshape(-1, len(model.features)).T.tolist()  # columns have all features, then all again
    rows: list[dict[str, Any]] = [
        {"name": name, "weights": own} for name, own in zip(model.features, weights, strict=True)
    ]
    if model.knots is not None and model.has_knots:
        for row, knots in zip(rows, model.knots.tolist(), strict=True):
            row["knots"] = knots
    content = {
        "kind": KIND,
        "format": FORMAT,
        "name": model.name,
        "version": model.version,
        "meaning": MEANING,
        "representation": write_representation(model.representation, model.features),
        "features": rows,
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def model_from_json(text: str | bytes) -> dict[str, Any]:
    """Return the fields of the model that a text describes, or raise an error that says what is wrong with it."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"this is not the JSON of a model: {error}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise DataFormatError(f'the JSON of a model is an object with "kind": "{KIND}"')
    if content.get("format") != FORMAT:
        raise DataFormatError(f"this model has format {content.get('format')!r}; this duelrank reads {FORMAT}")
    try:
        return _fields(content)
    except KeyError as error:
        raise DataFormatError(f"the JSON of a model lacks {error}") from None


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    rows = content["features"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) <= _KNOWN for row in rows):
        raise InvalidValue(f"features are a list of objects with {', '.join(sorted(_KNOWN))}")
    names = tuple(row["name"] for row in rows)
    for name in names:
        if not isinstance(name, str):
            raise InvalidValue(f"a feature has a name that is not empty, got {name!r}")
    has_knots = any("knots" in row for row in rows)
    return {
        "name": content["name"],
        "version": content["version"],
        "features": names,
        "weights": _table([row["weights"] for row in rows], names, "weights").T.ravel(),
        "representation": read_representation(content["representation"], names),
        "knots": _table([row["knots"] for row in rows], names, "knots") if has_knots else None,
    }


def _table(rows: list[Any], names: tuple[str, ...], what: str) -> NDArray[np.float64]:
    """Return the numbers of all features, as many for each."""
    for name, row in zip(names, rows, strict=True):
        if not isinstance(row, list) or len(row) != len(rows[0]):
            raise InvalidValue(f"the {what} of {name!r} are a list, as long as those of the other features")
        for number in row:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InvalidValue(f"each of the {what} of {name!r} is a number, got {number!r}")
    try:
        return np.array([[float(number) for number in row] for row in rows])
    except OverflowError:
        raise InvalidValue(f"{what} are finite numbers, found one beyond the largest float") from None


#: Knots are within this, so that the difference to a value is finite.
FARTHEST = 1e38
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Weights of the columns that a representation makes of named features: what each feature adds to the score.

    Parameters
    ----------
    name
        Letters, digits and ``_ . -``.
    version
        A whole number that grows; exports whose engine keeps models under unique names use `versioned_name`.
    features
        Unique names, in the order of the columns.
    weights
        (n_columns,), finite; kept as read-only float64. One for each feature, in order; where the representation has more columns,
        then the second of each feature, and so on.
    representation
        What is weighed of the raw feature values; see `duelrank.representation`.
    knots
        (n_features, n_knots), where the representation learns knots. Without them, those that it starts with.

    Examples
    --------
    >>> from duelrank.export import LinearModel
    >>> from duelrank.representation import Fixed, MinMax, Ramps, Unscaled
    >>> model = LinearModel("shop", 7, ("bm25", "price"), [0.5, -0.25], Fixed((Unscaled(), MinMax(0.0, 900.0))))
    >>> model.score([[2.0, 450.0], [1.0, 0.0]]).tolist()
    [0.875, 0.5]
    >>> model.versioned_name
    'shop_000007'
    >>> bent = LinearModel("shop", 8, ("price",), [1.0, -0.5], Ramps(pieces=2), [[0.0, 20.0, 100.0]])
    >>> bent.score([[10.0], [20.0], [60.0]]).tolist()
    [0.5, 1.0, 0.75]
    """

    name: str
    version: int
    features: tuple[str, ...]
    weights: Weights
    representation: Representation = Raw()
    knots: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidValue(f"the name of a model has letters, digits and _ . - (at most 100), got {self.name!r}")
        whole_number("the version of a model", self.version, least=0)
        object.__setattr__(self, "features", _checked_names(self.features))
        if not isinstance(self.representation, Representation):
            raise InvalidValue(
                f"a representation must be one of duelrank.representation, such as Raw(), got {self.representation!r}"
            )
        object.__setattr__(self, "knots", self._checked_knots())
        n_columns = self.representation.n_columns(len(self.features), self.memory)
        object.__setattr__(self, "weights", _checked_weights(self.weights, len(self.features), n_columns))

    def _checked_knots(self) -> NDArray[np.float64] | None:
        n_features = len(self.features)
        first = knots_of(self.representation.start(n_features))
        if self.knots is None or first is None:
            if self.knots is not None:
                raise InvalidValue(f"{self.representation!r} has no knots")
            return first
        knots = _numbers(self.knots, "knots")
        if knots.ndim != 2 or len(knots) != n_features or knots.shape[1] < 2:
            raise ShapeMismatch(
                f"{n_features} features need as many rows of two knots or more, got shape {knots.shape}"
            )
        if np.isnan(knots).all() and np.isnan(first).all() and knots.shape == first.shape:
            return frozen(knots)
        if not (np.abs(knots) <= FARTHEST).all() or (np.diff(knots, axis=1) < 0.0).any():
            raise InvalidValue(f"the knots of each feature are finite numbers within ±{FARTHEST:g} that do not fall")
        return frozen(knots)

    @cached_property
    def memory(self) -> Memory:
        """What the representation's methods take as its memory."""
        return with_knots(self.representation.start(len(self.features)), self.knots)

    @property
    def has_knots(self) -> bool:
        """Whether knots have been learned; before, a representation with knots weighs places in the query's range."""
        return self.knots is not None and not np.isnan(self.knots[0, 0])

    @property
    def domain(self) -> Domain:
        """What the curves are functions of; see `Representation.domain`."""
        return "query range" if self.knots is not None and not self.has_knots else self.representation.domain

    @cached_property
    def curves(self) -> list[Curve]:
        """What each feature adds to the score."""
        return self.representation.curves(self.weights, self.memory)

    @property
    def is_linear(self) -> bool:
        """Whether every feature adds a straight line, without end."""
        return all(curve.shape == "line" for curve in self.curves)

    @property
    def versioned_name(self) -> str:
        """The name with the version, for engines that refuse a name that exists."""
        return f"{self.name}_{self.version:06d}"

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of one query's documents, from their raw features; higher is better."""
        raw = Query("", features).features
        if raw.shape[1] != len(self.features):
            raise ShapeMismatch(f"the model has {len(self.features)} features, the documents have {raw.shape[1]}")
        scores: NDArray[np.float64] = linear_scores(self.weights, self.representation.apply(raw, self.memory))
        return scores

    def to_json(self) -> str:
        """Return everything as JSON text, from which `from_json` makes the same model, to the bit."""
        return model_to_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> LinearModel:
        """Read the text of `to_json`, or raise a `DataFormatError` that says what is wrong."""
        try:
            return cls(**model_from_json(text))
        except DataFormatError:
            raise
        except DuelrankError as error:
            raise DataFormatError(f"the JSON of a model is wrong: {error}") from None

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        name: str = "duelrank",
        features: Sequence[str] | None = None,
        representation: Representation | None = None,
        version: int | None = None,
    ) -> LinearModel:
        """Take the weights of a learner, its feature names (f1, f2, … if it has none) and its number of updates as the version.

        ``features`` and ``version`` replace the latter two. A recipe with a representation has its own; ``representation`` says
        what else was applied to the features before the learner saw them.
        """
        names = snapshot.names if features is None else tuple(features)
        if len(names) != snapshot.n_features:
            raise ShapeMismatch(f"the snapshot has {snapshot.n_features} features, got {len(names)} names")
        own = getattr(parse(snapshot.algorithm), "representation", None)
        if own is not None and representation is not None:
            raise InvalidValue(f"{snapshot.algorithm} already contains its representation: give none")
        number = snapshot.state.updates if version is None else version
        knots = knots_of(snapshot.state.memory.get("representation", {}))
        return cls(name, number, names, snapshot.state.weights, own or representation or Raw(), knots)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinearModel)
            and (self.name, self.version, self.features) == (other.name, other.version, other.features)
            and self.representation == other.representation
            and np.array_equal(self.weights, other.weights)
            and (self.knots is None or np.array_equal(self.knots, other.knots, equal_nan=True))  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]  # holds an array


def _checked_names(given: Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names:
        raise InvalidValue("a model needs at least one feature")
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidValue(f"a feature has a name that is not empty, got {name!r}")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InvalidValue(f"the name of a feature is Unicode text, got {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise InvalidValue(f"two features are called {twice!r}; each needs a name of its own")
    return names


def _checked_weights(given: ArrayLike, n_features: int, n_columns: int) -> Weights:
    weights = _numbers(given, "weights")
    if weights.shape != (n_columns,):
        raise ShapeMismatch(f"{n_features} features need {n_columns} weights here, got shape {weights.shape}")
    if not np.isfinite(weights).all():
        raise InvalidValue("weights are finite numbers, found NaN or infinity")
    return frozen(weights)


def _numbers(given: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return a copy in double precision."""
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "iuf":
            raise TypeError(f"found {found.dtype}")
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"{what} are numbers: {error}") from None


_CONSTANT = Standard(0.0, 0.0)


@dataclass(frozen=True)
class Inputs:
    """The way from raw values to what the curves are functions of.

    Parameters
    ----------
    within
        `QueryScaled`, `QueryRanks`, the one after the other, or nothing.
    scalings
        What comes after that, one scaling per feature. One with scale 0 makes the feature constant, whatever its value.
    """

    within: tuple[Representation, ...]
    scalings: tuple[Scaling, ...]

    @property
    def scales(self) -> bool:
        """Whether any scaling changes anything."""
        return any(not isinstance(each, Unscaled) for each in self.scalings)


def inputs_of(model: LinearModel, engine: str, within_query: bool = False) -> Inputs:
    """Return the inputs of a model's curves, or refuse; engines without ``within_query`` know one formula for all queries.

    They are the same up to a constant per query: scaling all values alike changes no place within the query.
    """
    within: tuple[Representation, ...] = ()
    scalings: tuple[Scaling, ...] = (Unscaled(),) * len(model.features)
    stages = _stages(model)
    for stage in stages:
        if isinstance(stage, Fixed):
            scalings = tuple(map(_combined, scalings, stage.scalings))
        elif isinstance(stage, QueryScaled | QueryRanks):
            if not within_query:
                too_early = _waits_for_knots(model) and stage is stages[-1]
                raise InvalidValue(_too_early(engine, model) if too_early else _refusal(engine, stage))
            within = _then(within, stage)
            scalings = tuple(each if each.scale == 0.0 else Unscaled() for each in scalings)
        elif not isinstance(stage, Raw):
            raise InvalidValue(f"{engine} cannot compute {spell(stage)} before other representations; json can hold it")
    return Inputs(within, scalings)


def _stages(model: LinearModel) -> Sequence[Representation]:
    """Return the representations that make the inputs, in order: all where the curves are lines, else all but the last."""
    found = _flat(model.representation)
    if _waits_for_knots(model):
        return [*found[:-1], QueryScaled()]
    last = found[-1]
    return found if isinstance(last, Raw | Fixed | QueryScaled | QueryRanks) else found[:-1]


def _waits_for_knots(model: LinearModel) -> bool:
    return model.knots is not None and not model.has_knots


def _flat(representation: Representation) -> list[Representation]:
    if isinstance(representation, Chain):
        return [*_flat(representation.first), *_flat(representation.then)]
    return [representation]


def _combined(first: Scaling, then: Scaling) -> Scaling:
    """Return one scaling for two; of a constant, a constant."""
    if first.scale == 0.0 or then.scale == 0.0:
        return _CONSTANT
    if isinstance(first, Unscaled) or isinstance(then, Unscaled):
        return then if isinstance(first, Unscaled) else first
    return Standard(first.shift + first.scale * then.shift, first.scale * then.scale)


def _then(within: tuple[Representation, ...], stage: Representation) -> tuple[Representation, ...]:
    """Return what is left to compute: ranks do not depend on scales, and places of places are the same places."""
    return (stage,) if isinstance(stage, QueryRanks) or within[-1:] in ((), (stage,)) else (*within, stage)


def _too_early(engine: str, model: LinearModel) -> str:
    return (
        f"{engine} cannot take this model yet: until it places its first knots, {spell(model.representation)} weighs places in the "
        "range of each query, and that differs from query to query; export it again when it has learned from more lists"
    )


def _refusal(engine: str, stage: Representation) -> str:
    if isinstance(stage, QueryRanks):
        return (
            f"{engine} cannot rank the values within a query: it scores each document alone, but here the score depends on the "
            "other documents of the query; onnx (one batch = one query) and json can take this model"
        )
    return (
        f"{engine} cannot normalise per query: it scales by numbers that are the same for all queries, but here the "
        "scale (largest − least value among a query's documents) differs from query to query, and with it the order; "
        "vespa (global-phase), onnx (one batch = one query) and json can take this model"
    )


@dataclass(frozen=True)
class Term:
    """One summand of the score: weight × scaled value of the feature; nothing is scaled without a scaling."""

    name: str
    weight: float
    scaling: Scaling | None


def terms(model: LinearModel, engine: str) -> list[Term]:
    """Return the summands of a linear model whose scaling is the same for all queries, or refuse with the reason."""
    return terms_of(model, inputs_of(model, engine))


def terms_of(model: LinearModel, inputs: Inputs) -> list[Term]:
    """Return the summands of a linear model over its inputs.

    A feature that was constant (scale 0) always counts 0: its weight becomes 0 and its scaling, which no engine accepts, goes.
    """
    found = []
    for name, weight, scaling in zip(model.features, model.weights.tolist(), inputs.scalings, strict=True):
        known = None if isinstance(scaling, Unscaled) or scaling.scale == 0.0 else scaling
        found.append(Term(name, weight if scaling.scale > 0.0 else 0.0, known))
    return found


def finite(value: float, what: str) -> float:
    """Return a number that a format can hold, or refuse."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValue(f"{what} has to be a finite number, got {value!r}")
    return float(value)


def check_single_precision(summands: Sequence[Term], engine: str) -> None:
    """Raise `InvalidValue` where rounding to float32, as the engine does, would change more than the last digits."""
    single = np.finfo(np.float32)
    largest = max(abs(each.weight) for each in summands)
    if largest > float(single.max) or 0.0 < largest < float(single.tiny):
        raise InvalidValue(
            f"{engine} keeps weights in single precision, which cannot hold a largest weight of {largest!r}"
        )
    for each in summands:
        if each.scaling is not None and not _survives(each.scaling):
            raise InvalidValue(
                f"{engine} keeps normalisers in single precision, in which {each.scaling!r} of feature {each.name!r} "
                "has no positive, finite scale; rescale that feature before it is learned"
            )


def _survives(scaling: Scaling) -> bool:
    with np.errstate(all="ignore"):
        if isinstance(scaling, MinMax):
            scale = np.float32(scaling.maximum) - np.float32(scaling.minimum)
        else:
            scale = np.float32(scaling.scale)
        shift = np.float32(scaling.shift)
    return bool(0.0 < scale < np.inf and np.isfinite(shift))


Precision: TypeAlias = type[np.float32] | type[np.float64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of one feature's curve, ascending; each rises from 0 to its rise.

    Parameters
    ----------
    low, high
        Where a piece starts to rise and where it ends, in float64 that the precision asked for holds exactly. Where both are equal
        it is a step: 0 up to there, its rise behind it.
    rise
        What it adds to the score from its end on; never 0.
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
    """Return the curves of all features as functions of raw values, or of places within the query where inputs are that.

    Steps are exact: a number of this precision is behind a step here where it is, scaled in double precision, in the model.
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
                f"{engine} keeps numbers in {np.dtype(precision).name}, in which a piece of the curve of {name!r} has no "
                "positive, finite width; rescale that feature before it is learned"
            )
        low[step] = high[step] = _last_up_to(pieces.low[step], scaling, precision)
        live = ~step | ((low > -np.inf) & (low < np.finfo(precision).max))  # a step beyond all numbers divides none
        found.append(Pieces(low[live], high[live], pieces.rise[live]))
    return found


def _pieces(curve: Curve) -> Pieces:
    """Return the pieces of a curve over its own inputs."""
    rise = np.diff(curve.heights)
    if curve.shape == "steps":
        low = high = curve.values[1:]
    else:
        low, high = curve.values[:-1], curve.values[1:]
        jump = low == high  # at the value itself a curve is halfway: half the step is before it
        low = np.concatenate([low, np.nextafter(low[jump], -np.inf)])
        high = np.concatenate([high, np.nextafter(high[jump], -np.inf)])
        half = np.where(jump, 0.5 * rise, rise)
        rise = np.concatenate([half, half[jump]])
    keep = np.flatnonzero(rise != 0.0)
    order = keep[np.argsort(low[keep], kind="stable")]
    return Pieces(low[order], high[order], rise[order])


def _last_up_to(limits: NDArray[np.float64], scaling: Scaling, precision: Precision) -> NDArray[np.float64]:
    """Return the largest number of a precision whose scaled value is at most each limit; −inf where none is."""
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
    """Return the numbers of a precision by their place in ascending order, 0.0 at place 0."""
    bits = np.int32 if precision is np.float32 else np.int64
    sizes = np.abs(places).astype(bits).view(precision).astype(np.float64)
    return np.where(places < 0, -sizes, sizes)


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
