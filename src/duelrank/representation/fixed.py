"""Fixed scalings of features, and the JSON form of representations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe, InvalidValue, ShapeMismatch, UnknownName
from duelrank.core.grammar import parse
from duelrank.core.registry import Part, counted, register, spell
from duelrank.core.types import Features, Memory, Weights, frozen
from duelrank.representation.base import (
    Curve,
    Domain,
    Missing,
    Raw,
    Representation,
    split_missing,
    with_missing,
)


@dataclass(frozen=True, repr=False)
class Scaling(Part, ABC):
    """The scaling of one feature by fixed numbers: x ↦ (x − shift) / scale; 0 if the scale is 0."""

    kind: ClassVar[str] = "scaling"

    @property
    @abstractmethod
    def shift(self) -> float:
        """The number that is subtracted."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The divisor; 0 for a constant feature."""


@register
@dataclass(frozen=True, repr=False)
class MinMax(Scaling):
    """Min-max scaling of one feature: x ↦ (x − minimum) / (maximum − minimum), never clipped; 0 if the two are equal.

    Parameters
    ----------
    minimum, maximum
        The values that become 0 and 1.

    Examples
    --------
    Prices from 0 to 900; a higher one gets more than 1:

    >>> import numpy as np
    >>> from duelrank.representation import Fixed, MinMax
    >>> Fixed((MinMax(0.0, 900.0),)).apply(np.array([[0.0], [450.0], [990.0]]), {}).ravel().tolist()
    [0.0, 0.5, 1.1]
    """

    minimum: float
    maximum: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.maximum - self.minimum < math.inf:
            raise InvalidRecipe(
                "the minimum of a feature must not exceed its maximum, nor their difference the largest float, got "
                f"{self.minimum!r} and {self.maximum!r}"
            )

    @property
    def shift(self) -> float:
        """The minimum."""
        return self.minimum

    @property
    def scale(self) -> float:
        """The range."""
        return self.maximum - self.minimum


@register
@dataclass(frozen=True, repr=False)
class Standard(Scaling):
    """Standard scaling of one feature: x ↦ (x − mean) / deviation; 0 if the deviation is 0.

    Parameters
    ----------
    mean
        The value that becomes 0.
    deviation
        The distance from it that becomes 1.

    Examples
    --------
    Ages in days, around 30:

    >>> import numpy as np
    >>> from duelrank.representation import Fixed, Standard
    >>> Fixed((Standard(30.0, 12.0),)).apply(np.array([[18.0], [30.0], [54.0]]), {}).ravel().tolist()
    [-1.0, 0.0, 2.0]
    """

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deviation < 0.0:
            raise InvalidRecipe(f"a standard deviation must not be negative, got {self.deviation!r}")

    @property
    def shift(self) -> float:
        """The mean."""
        return self.mean

    @property
    def scale(self) -> float:
        """The deviation."""
        return self.deviation


@register
@dataclass(frozen=True, repr=False)
class Unscaled(Scaling):
    """No scaling of one feature.

    Examples
    --------
    The first feature is a price, the second a share, which is between 0 and 1 anyway:

    >>> import numpy as np
    >>> from duelrank.representation import Fixed, MinMax, Unscaled
    >>> Fixed((MinMax(0.0, 900.0), Unscaled())).apply(np.array([[450.0, 0.3], [90.0, 0.7]]), {}).tolist()
    [[0.5, 0.3], [0.1, 0.7]]
    """

    @property
    def shift(self) -> float:
        """Nothing is subtracted."""
        return 0.0

    @property
    def scale(self) -> float:
        """Values are divided by 1."""
        return 1.0


@register
@dataclass(frozen=True, repr=False)
class Fixed(Representation):
    """Scale each feature by its own numbers, the same for all queries.

    Parameters
    ----------
    scalings
        One `MinMax`, `Standard` or `Unscaled` per feature.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Fixed, MinMax, Standard, Unscaled
    >>> Fixed((MinMax(0.0, 900.0), Standard(30.0, 12.0), Unscaled())).apply(np.array([[450.0, 42.0, 7.0]]), {})
    array([[0.5, 1. , 7. ]])
    """

    scalings: tuple[Scaling, ...]

    following_domain: ClassVar[Domain | None] = "scaled value"

    @cached_property
    def shift(self) -> NDArray[np.float64]:
        """(n_features,) the numbers that are subtracted."""
        return frozen(np.array([each.shift for each in self.scalings]))

    @cached_property
    def scale(self) -> NDArray[np.float64]:
        """(n_features,) the divisors; 0 for constant features."""
        return frozen(np.array([each.scale for each in self.scalings]))

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Return an empty memory; raise `ShapeMismatch` if the scalings are for another number of features."""
        if len(self.scalings) != n_features:
            raise ShapeMismatch(f"scalings of {counted(len(self.scalings), 'feature')} do not fit {n_features}")
        return {}

    def apply(self, features: Features, memory: Memory) -> Features:
        """Subtract and divide; a feature with scale 0 becomes 0."""
        constant = self.scale == 0.0
        scaled: Features = (features - self.shift) / np.where(constant, 1.0, self.scale)
        scaled[:, constant] = 0.0
        return scaled

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Scale all documents at once."""
        return self.apply(features, memory)

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line for each feature, which is 0 at its shift; a constant for a feature with scale 0."""
        found = []
        for each, weight in zip(self.scalings, weights.tolist(), strict=True):
            ends = np.array([each.shift, each.shift + (each.scale or 1.0)])
            found.append(Curve(ends, np.array([0.0, weight if each.scale else 0.0]), "line"))
        return found


RAW = Raw()

# Kind of scaling, as in Elasticsearch-LTR -> class, names of its parameters in JSON.
_SCALINGS: dict[str, tuple[type[MinMax] | type[Standard], tuple[str, str]]] = {
    "min_max": (MinMax, ("minimum", "maximum")),
    "standard": (Standard, ("mean", "standard_deviation")),
}


def read_representation(given: Any, names: Sequence[str], then: Representation = RAW) -> Representation:
    """Return the representation that JSON describes, for features of these names.

    ``then`` follows what replaces missing values, where that does not say what follows.

    Examples
    --------
    >>> read_representation("query-scaled >> ramps", ["bm25", "price"])
    Chain(first=QueryScaled(), then=Ramps())
    >>> scaled = {"price": {"min_max": {"minimum": 0, "maximum": 9}}}
    >>> read_representation({"kind": "fixed", "features": scaled}, ["bm25", "price"])
    Fixed(scalings=(Unscaled(), MinMax(minimum=0.0, maximum=9.0)))
    """
    if isinstance(given, str):
        return parse(given, Representation)
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind == "fixed":
        return _fixed(given, names)
    if kind == "missing":
        return _missing(given, names, then)
    raise InvalidValue(
        'a representation is the text of a recipe, such as "query-scaled >> ramps", '
        '{"kind": "fixed", "features": {...}}, or {"kind": "missing", "features": {...}, "then": ...}, '
        f"got {given!r}"
    )


def _missing(given: Mapping[str, Any], names: Sequence[str], then: Representation) -> Representation:
    values = given.get("features")
    if not isinstance(values, Mapping) or not set(given) <= {"kind", "features", "then"}:
        raise InvalidValue(
            'missing values are {"kind": "missing", "features": {name: "neutral" or a number}, "then": ...}'
        )
    for name, value in values.items():
        if name not in names:
            raise UnknownName.among("feature", str(name), names)
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not (number or value == "neutral"):
            raise InvalidValue(f'a missing {name!r} counts as "neutral" or as a number, got {value!r}')
    rest = read_representation(given["then"], names) if "then" in given else then
    if rest.fills:
        raise InvalidValue(f"missing values are replaced twice: {given!r}")
    return with_missing(Missing(tuple(values.get(name, "never") for name in names)), rest)


def write_representation(representation: Representation, names: Sequence[str]) -> str | dict[str, Any]:
    """Return JSON that `read_representation` turns back into the representation."""
    missing, rest = split_missing(representation)
    if missing is not None and missing.values:
        return {"kind": "missing", "features": missing.lacking(names), "then": write_representation(rest, names)}
    if not isinstance(representation, Fixed):
        return spell(representation)
    found = {}
    for name, each in zip(names, representation.scalings, strict=True):
        for kind, (cls, (first, second)) in _SCALINGS.items():
            if isinstance(each, cls):
                numbers = [getattr(each, field.name) for field in fields(each)]
                found[name] = {kind: dict(zip((first, second), numbers, strict=True))}
    return {"kind": "fixed", "features": found}


def _fixed(given: Mapping[str, Any], names: Sequence[str]) -> Fixed:
    scalings = given.get("features")
    if not isinstance(scalings, Mapping) or len(given) != 2:
        raise InvalidValue('fixed scalings are {"kind": "fixed", "features": {name: {...}}}')
    for name in scalings:
        if name not in names:
            raise UnknownName.among("feature", str(name), names)
    return Fixed(tuple(_scaling(name, scalings.get(name)) for name in names))


def _scaling(name: str, given: Any) -> Scaling:
    if given is None:
        return Unscaled()
    if isinstance(given, Mapping) and len(given) == 1:
        kind, numbers = next(iter(given.items()))
        if kind in _SCALINGS and isinstance(numbers, Mapping) and set(numbers) == set(_SCALINGS[kind][1]):
            scaling, (first, second) = _SCALINGS[kind]
            try:
                return scaling(numbers[first], numbers[second])
            except InvalidRecipe as error:
                raise InvalidValue(f"the scaling of feature {name!r}: {error}") from None
    shapes = '{"min_max": {"minimum": …, "maximum": …}}, {"standard": {"mean": …, "standard_deviation": …}}'
    raise InvalidValue(f"the scaling of feature {name!r} must be {shapes} or null, got {given!r}")
