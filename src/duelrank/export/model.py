"""The linear model: named weights and the normalisation of features, from which every export is made."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.errors import DataFormatError, DuelrankError, InvalidValue, ShapeMismatch
from duelrank.normalisation import NoNormalisation, Normalisation
from duelrank.snapshot import Snapshot
from duelrank.types import Query, Weights, frozen
from duelrank.validation import whole_number

__all__ = ["LinearModel"]

KIND = "duelrank linear model"
FORMAT = 1
MEANING = "score = sum over features of weight × normalised value; higher is better"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Named weights of named features, with the normalisation that belongs to them.

    Parameters
    ----------
    name
        Letters, digits and ``_ . -``.
    version
        A whole number that grows; exports whose engine keeps models under unique names use `versioned_name`.
    features
        Unique names, in the order of the weights.
    weights
        (n_features,), finite; kept as read-only float64.
    normalisation
        Normalisation of raw feature values before they are weighed; see `duelrank.normalisation`.

    Examples
    --------
    >>> from duelrank.export import LinearModel
    >>> from duelrank.normalisation import Fixed, MinMax
    >>> model = LinearModel("shop", 7, ("bm25", "price"), [0.5, -0.25], Fixed((None, MinMax(0.0, 900.0))))
    >>> model.score([[2.0, 450.0], [1.0, 0.0]]).tolist()
    [0.875, 0.5]
    >>> model.versioned_name
    'shop_000007'
    """

    name: str
    version: int
    features: tuple[str, ...]
    weights: Weights
    normalisation: Normalisation = NoNormalisation()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidValue(f"the name of a model has letters, digits and _ . - (at most 100), got {self.name!r}")
        whole_number("the version of a model", self.version, least=0)
        object.__setattr__(self, "features", _checked_names(self.features))
        object.__setattr__(self, "weights", _checked_weights(self.weights, len(self.features)))
        if not isinstance(self.normalisation, Normalisation):
            raise InvalidValue(
                f"a normalisation must be NoNormalisation(), Fixed(...) or PerQuery(), got {self.normalisation!r}"
            )
        self.normalisation.check(len(self.features))

    @property
    def versioned_name(self) -> str:
        """The name with the version, for engines that refuse a name that exists."""
        return f"{self.name}_{self.version:06d}"

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of one query's documents, from their raw features; higher is better."""
        raw = Query("", features).features
        if raw.shape[1] != len(self.features):
            raise ShapeMismatch(f"the model has {len(self.features)} features, the documents have {raw.shape[1]}")
        scores: NDArray[np.float64] = self.normalisation.apply(raw) @ self.weights
        return scores

    def to_json(self) -> str:
        """Return everything as JSON text, from which `from_json` makes the same model, to the bit."""
        pairs = zip(self.features, self.weights.tolist(), strict=True)
        content = {
            "kind": KIND,
            "format": FORMAT,
            "name": self.name,
            "version": self.version,
            "meaning": MEANING,
            "features": [{"name": name, "weight": weight} for name, weight in pairs],
            "normalisation": self.normalisation.as_dict(self.features),
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> LinearModel:
        """Read the text of `to_json`, or raise a `DataFormatError` that says what is wrong."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataFormatError(f"this is not the JSON of a model: {error}") from None
        if not isinstance(content, dict) or content.get("kind") != KIND:
            raise DataFormatError(f'the JSON of a model is an object with "kind": "{KIND}"')
        if content.get("format") != FORMAT:
            raise DataFormatError(f"this model has format {content.get('format')!r}; this duelrank reads {FORMAT}")
        try:
            names, weights = _pairs(content["features"])
            normalisation = Normalisation.from_dict(content["normalisation"], names)
            return cls(content["name"], content["version"], names, weights, normalisation)
        except KeyError as error:
            raise DataFormatError(f"the JSON of a model lacks {error}") from None
        except DuelrankError as error:
            raise DataFormatError(f"the JSON of a model is wrong: {error}") from None

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        name: str = "duelrank",
        features: Sequence[str] | None = None,
        normalisation: Normalisation | None = None,
        version: int | None = None,
    ) -> LinearModel:
        """Take the weights of a learner; features are called f1, f2, … and the version counts updates, unless given."""
        names = tuple(features) if features is not None else tuple(f"f{i + 1}" for i in range(snapshot.n_features))
        number = snapshot.state.updates if version is None else version
        return cls(name, number, names, snapshot.state.weights, normalisation or NoNormalisation())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinearModel)
            and (self.name, self.version, self.features) == (other.name, other.version, other.features)
            and self.normalisation == other.normalisation
            and np.array_equal(self.weights, other.weights)
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


def _checked_weights(given: ArrayLike, n_features: int) -> Weights:
    try:
        weights = np.asarray(given)
        if weights.dtype.kind not in "iuf":
            raise TypeError(f"found {weights.dtype}")
        weights = weights.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"weights are numbers, one per feature: {error}") from None
    if weights.shape != (n_features,):
        raise ShapeMismatch(f"{n_features} features need {n_features} weights, got shape {weights.shape}")
    if not np.isfinite(weights).all():
        raise InvalidValue("weights are finite numbers, found NaN or infinity")
    return frozen(weights)


def _pairs(given: Any) -> tuple[tuple[str, ...], Weights]:
    if not isinstance(given, list) or not all(isinstance(each, dict) and len(each) == 2 for each in given):
        raise InvalidValue('features are a list of {"name": …, "weight": …}')
    names, weights = tuple(each["name"] for each in given), [each["weight"] for each in given]
    for name, weight in zip(names, weights, strict=True):
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise InvalidValue(f"the weight of {name!r} is a number, got {weight!r}")
    try:
        return _checked_names(names), np.array([float(weight) for weight in weights])
    except OverflowError:
        raise InvalidValue("weights are finite numbers, found one beyond the largest float") from None
