"""The model that every export is made from: named features, a representation of them, and its weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.errors import DataFormatError, DuelrankError, InvalidValue, ShapeMismatch
from duelrank.export.model_json import model_from_json, model_to_json
from duelrank.grammar import parse
from duelrank.kernels.ranking import linear_scores
from duelrank.representation import Curve, Raw, Representation
from duelrank.representation.base import Domain, knots_of, with_knots
from duelrank.snapshot import Snapshot
from duelrank.types import Memory, Query, Weights, frozen
from duelrank.validation import whole_number

__all__ = ["LinearModel"]

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
