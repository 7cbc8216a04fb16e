"""How raw feature values become those that a model weighs: not at all, by fixed numbers, or within each query."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue, ShapeMismatch, UnknownName
from duelrank.types import Features, frozen

__all__ = ["Fixed", "MinMax", "NoNormalisation", "Normalisation", "PerQuery", "Scaling", "Standard"]


@dataclass(frozen=True)
class MinMax:
    """One feature: x ↦ (x − minimum) / (maximum − minimum), never clipped; always 0 where the two are equal."""

    minimum: float
    maximum: float

    def __post_init__(self) -> None:
        _keep_numbers(self)
        if not 0.0 <= self.maximum - self.minimum < math.inf:
            raise InvalidValue(f"the minimum {self.minimum!r} and maximum {self.maximum!r} of a feature span no range")

    @property
    def shift(self) -> float:
        """What is subtracted."""
        return self.minimum

    @property
    def scale(self) -> float:
        """What the rest is divided by; 0 of a constant feature."""
        return self.maximum - self.minimum

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return it as JSON has it, which is as Elasticsearch-LTR has it."""
        return {"min_max": {"minimum": self.minimum, "maximum": self.maximum}}


@dataclass(frozen=True)
class Standard:
    """One feature: x ↦ (x − mean) / deviation; always 0 where the deviation is 0."""

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        _keep_numbers(self)
        if self.deviation < 0.0:
            raise InvalidValue(f"a standard deviation is not negative, got {self.deviation!r}")

    @property
    def shift(self) -> float:
        """What is subtracted."""
        return self.mean

    @property
    def scale(self) -> float:
        """What the rest is divided by; 0 of a constant feature."""
        return self.deviation

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return it as JSON has it, which is as Elasticsearch-LTR has it."""
        return {"standard": {"mean": self.mean, "standard_deviation": self.deviation}}


Scaling: TypeAlias = MinMax | Standard | None  # of one feature; None leaves it as it is

# kind -> class, names of its numbers in JSON
_SCALINGS: dict[str, tuple[type[MinMax] | type[Standard], tuple[str, str]]] = {
    "min_max": (MinMax, ("minimum", "maximum")),
    "standard": (Standard, ("mean", "standard_deviation")),
}


class Normalisation(ABC):
    """What is done to the features of a query's documents before they are weighed."""

    @abstractmethod
    def apply(self, features: Features) -> Features:
        """Return the (n_documents, n_features) values that are weighed; the documents are those of one query."""

    @abstractmethod
    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return it as JSON has it, given the names of the features."""

    def check(self, n_features: int) -> None:  # noqa: B027  # most fit any number
        """Raise `ShapeMismatch` where it is for another number of features."""

    @staticmethod
    def from_dict(given: Any, names: Sequence[str]) -> Normalisation:
        """Read what `as_dict` made, for features of these names."""
        kind = given.get("kind") if isinstance(given, Mapping) else None
        if kind == "fixed":
            return _fixed(given, names)
        if kind not in ("none", "per_query") or len(given) > 1:
            shapes = '{"kind": "none"}, {"kind": "per_query"} or {"kind": "fixed", "features": {...}}'
            raise InvalidValue(f"a normalisation is {shapes}, got {given!r}")
        return NoNormalisation() if kind == "none" else PerQuery()


@dataclass(frozen=True)
class NoNormalisation(Normalisation):
    """The features are weighed as they come."""

    def apply(self, features: Features) -> Features:
        """Return the features themselves."""
        return features

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Say that there is none."""
        return {"kind": "none"}


@dataclass(frozen=True)
class PerQuery(Normalisation):
    """Each feature to [0, 1] between its least and largest value among the query's documents; 0 where all are equal."""

    def apply(self, features: Features) -> Features:
        """Scale within these documents, to the bit as data sets are scaled for training."""
        low, high = features.min(axis=0), features.max(axis=0)
        with np.errstate(over="ignore"):  # a range beyond the largest float is measured in halves
            unit = np.where(np.isfinite(high - low), 1.0, 0.5)
        span = unit * high - unit * low
        scaled: Features = (unit * features - unit * low) / np.where(span > 0.0, span, 1.0)
        return scaled

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Say that it is per query."""
        return {"kind": "per_query"}


@dataclass(frozen=True)
class Fixed(Normalisation):
    """Each feature by numbers of its own, the same for all queries.

    Parameters
    ----------
    scalings
        One `MinMax`, `Standard` or None (left as it is) per feature.

    Examples
    --------
    >>> import numpy as np
    >>> Fixed((MinMax(0.0, 900.0), Standard(30.0, 12.0), None)).apply(np.array([[450.0, 42.0, 7.0]]))
    array([[0.5, 1. , 7. ]])
    """

    scalings: tuple[Scaling, ...]
    shift: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    scale: NDArray[np.float64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scalings", tuple(self.scalings))
        for each in self.scalings:
            if not isinstance(each, MinMax | Standard | None):
                raise InvalidValue(f"a feature is scaled by MinMax, Standard or None, got {each!r}")
        object.__setattr__(self, "shift", frozen(np.array([each.shift if each else 0.0 for each in self.scalings])))
        object.__setattr__(self, "scale", frozen(np.array([each.scale if each else 1.0 for each in self.scalings])))

    def apply(self, features: Features) -> Features:
        """Subtract and divide; a feature that was constant stays 0 whatever its value."""
        constant = self.scale == 0.0
        scaled: Features = (features - self.shift) / np.where(constant, 1.0, self.scale)
        scaled[:, constant] = 0.0
        return scaled

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Give the numbers by the names of the features."""
        pairs = zip(names, self.scalings, strict=True)
        return {"kind": "fixed", "features": {name: each.as_dict() for name, each in pairs if each is not None}}

    def check(self, n_features: int) -> None:
        """Raise `ShapeMismatch` where it is for another number of features."""
        if len(self.scalings) != n_features:
            raise ShapeMismatch(f"a normalisation of {len(self.scalings)} features does not fit {n_features}")


def _keep_numbers(scaling: MinMax | Standard) -> None:
    for each in fields(scaling):
        object.__setattr__(scaling, each.name, _number(each.name, getattr(scaling, each.name)))


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise InvalidValue(f"the {what} of a feature is a finite number, got {value!r}")
    return float(value)


def _fixed(given: Mapping[str, Any], names: Sequence[str]) -> Fixed:
    scalings = given.get("features")
    if not isinstance(scalings, Mapping) or len(given) != 2:
        raise InvalidValue('a fixed normalisation is {"kind": "fixed", "features": {name: {...}}}')
    for name in scalings:
        if name not in names:
            raise UnknownName.among("feature", str(name), names)
    return Fixed(tuple(_scaling(name, scalings[name]) if name in scalings else None for name in names))


def _scaling(name: str, given: Any) -> Scaling:
    if given is None:
        return None
    if isinstance(given, Mapping) and len(given) == 1:
        kind, numbers = next(iter(given.items()))
        if kind in _SCALINGS and isinstance(numbers, Mapping) and set(numbers) == set(_SCALINGS[kind][1]):
            scaling, (first, second) = _SCALINGS[kind]
            return scaling(numbers[first], numbers[second])
    shapes = '{"min_max": {"minimum": …, "maximum": …}}, {"standard": {"mean": …, "standard_deviation": …}}'
    raise InvalidValue(f"the scaling of feature {name!r} is {shapes} or null, got {given!r}")
