"""Normalisation of features before they are weighed: none, by fixed numbers per feature, or within each query.

It belongs to a model: to `duelrank.export.LinearModel`, and to the rankers of a service (``"normalisation"`` in HTTP).
"""

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
    """Min-max scaling of one feature: x ↦ (x − minimum) / (maximum − minimum), never clipped; 0 if the two are equal."""

    minimum: float
    maximum: float

    def __post_init__(self) -> None:
        _keep_numbers(self)
        if not 0.0 <= self.maximum - self.minimum < math.inf:
            raise InvalidValue(
                "the minimum of a feature must not exceed its maximum, nor their difference the largest float, got "
                f"{self.minimum!r} and {self.maximum!r}"
            )

    @property
    def shift(self) -> float:
        """The number that is subtracted."""
        return self.minimum

    @property
    def scale(self) -> float:
        """The divisor; 0 of a constant feature."""
        return self.maximum - self.minimum

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the JSON of it, which is that of Elasticsearch-LTR."""
        return {"min_max": {"minimum": self.minimum, "maximum": self.maximum}}


@dataclass(frozen=True)
class Standard:
    """Standard scaling of one feature: x ↦ (x − mean) / deviation; 0 if the deviation is 0."""

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        _keep_numbers(self)
        if self.deviation < 0.0:
            raise InvalidValue(f"a standard deviation must not be negative, got {self.deviation!r}")

    @property
    def shift(self) -> float:
        """The number that is subtracted."""
        return self.mean

    @property
    def scale(self) -> float:
        """The divisor; 0 of a constant feature."""
        return self.deviation

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the JSON of it, which is that of Elasticsearch-LTR."""
        return {"standard": {"mean": self.mean, "standard_deviation": self.deviation}}


#: The scaling of one feature; None leaves its values unchanged.
Scaling: TypeAlias = MinMax | Standard | None

# In JSON: kind -> class, names of its numbers.
_SCALINGS: dict[str, tuple[type[MinMax] | type[Standard], tuple[str, str]]] = {
    "min_max": (MinMax, ("minimum", "maximum")),
    "standard": (Standard, ("mean", "standard_deviation")),
}


class Normalisation(ABC):
    """The normalisation of the features of one query's documents.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.normalisation import Normalisation, PerQuery
    >>> PerQuery().apply(np.array([[10.0, 3.0], [30.0, 3.0], [20.0, 3.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    >>> scaled = {"price": {"min_max": {"minimum": 0, "maximum": 9}}}
    >>> Normalisation.from_dict({"kind": "fixed", "features": scaled}, ["bm25", "price"])
    Fixed(scalings=(None, MinMax(minimum=0.0, maximum=9.0)))
    """

    @abstractmethod
    def apply(self, features: Features) -> Features:
        """Return the normalised values, (n_documents, n_features); the documents are those of one query."""

    @abstractmethod
    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON of it, given the names of the features."""

    def check(self, n_features: int) -> None:  # noqa: B027  # most fit any number
        """Raise `ShapeMismatch` if it is for another number of features."""

    @staticmethod
    def from_dict(given: Any, names: Sequence[str]) -> Normalisation:
        """Read the JSON that `as_dict` returns, for features of these names."""
        kind = given.get("kind") if isinstance(given, Mapping) else None
        if kind == "fixed":
            return _fixed(given, names)
        if kind not in ("none", "per_query") or len(given) > 1:
            shapes = '{"kind": "none"}, {"kind": "per_query"} or {"kind": "fixed", "features": {...}}'
            raise InvalidValue(f"a normalisation must be {shapes}, got {given!r}")
        return NoNormalisation() if kind == "none" else PerQuery()


@dataclass(frozen=True)
class NoNormalisation(Normalisation):
    """No normalisation: raw values are weighed."""

    def apply(self, features: Features) -> Features:
        """Return the features unchanged."""
        return features

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON of it."""
        return {"kind": "none"}


@dataclass(frozen=True)
class PerQuery(Normalisation):
    """Min-max scaling of each feature to [0, 1] among the documents of a query; 0 if all values are equal."""

    def apply(self, features: Features) -> Features:
        """Scale within these documents, bit for bit as data sets are scaled for training."""
        low, high = features.min(axis=0), features.max(axis=0)
        with np.errstate(over="ignore"):  # a range beyond the largest float is measured in halves
            unit = np.where(np.isfinite(high - low), 1.0, 0.5)
        span = unit * high - unit * low
        scaled: Features = (unit * features - unit * low) / np.where(span > 0.0, span, 1.0)
        return scaled

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON of it."""
        return {"kind": "per_query"}


@dataclass(frozen=True)
class Fixed(Normalisation):
    """Scaling of each feature by its own numbers, the same for all queries.

    Parameters
    ----------
    scalings
        One `MinMax`, `Standard` or None (unchanged) per feature.

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
                raise InvalidValue(f"a scaling must be MinMax, Standard or None, got {each!r}")
        object.__setattr__(self, "shift", frozen(np.array([each.shift if each else 0.0 for each in self.scalings])))
        object.__setattr__(self, "scale", frozen(np.array([each.scale if each else 1.0 for each in self.scalings])))

    def apply(self, features: Features) -> Features:
        """Subtract and divide; a feature that was constant becomes 0, whatever its value."""
        constant = self.scale == 0.0
        scaled: Features = (features - self.shift) / np.where(constant, 1.0, self.scale)
        scaled[:, constant] = 0.0
        return scaled

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON of it, by the names of the features."""
        pairs = zip(names, self.scalings, strict=True)
        return {"kind": "fixed", "features": {name: each.as_dict() for name, each in pairs if each is not None}}

    def check(self, n_features: int) -> None:
        """Raise `ShapeMismatch` if it is for another number of features."""
        if len(self.scalings) != n_features:
            raise ShapeMismatch(f"a normalisation of {len(self.scalings)} features does not fit {n_features}")


def _keep_numbers(scaling: MinMax | Standard) -> None:
    for each in fields(scaling):
        object.__setattr__(scaling, each.name, _number(each.name, getattr(scaling, each.name)))


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise InvalidValue(f"the {what} of a feature must be a finite number, got {value!r}")
    return float(value)


def _fixed(given: Mapping[str, Any], names: Sequence[str]) -> Fixed:
    scalings = given.get("features")
    if not isinstance(scalings, Mapping) or len(given) != 2:
        raise InvalidValue('a fixed normalisation must be {"kind": "fixed", "features": {name: {...}}}')
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
    raise InvalidValue(f"the scaling of feature {name!r} must be {shapes} or null, got {given!r}")
