"""Models: the weights, feature names and representation of a learned ranker, linear or with a scorer; and JSON text."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue, ShapeMismatch
from duelrank.core.grammar import parse
from duelrank.core.registry import counted, walk
from duelrank.core.snapshot import Snapshot
from duelrank.core.types import Features, Memory, Query, State, Weights, frozen
from duelrank.core.validation import whole_number
from duelrank.kernels.ranking import linear_scores
from duelrank.representation import Curve, Raw, Representation
from duelrank.representation.base import Domain, knots_of, with_knots
from duelrank.representation.fixed import read_representation, write_representation
from duelrank.scoring import Scorer

KIND = "duelrank linear model"
FORMAT = 2
MEANING = (
    "score = sum over features of weights · columns, where the representation makes the columns of a feature from its raw value "
    "(and from its knots, where it has any); higher is better"
)

#: Largest absolute value of a knot, so that the difference to any value is finite.
FARTHEST = 1e38
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_KNOWN = {"name", "weights", "knots"}


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """A scoring function of named features: a `LinearModel`, or a `ScorerModel` if it is not linear.

    Parameters
    ----------
    name, version, features, weights, representation, knots
        As in `LinearModel`.
    """

    name: str
    version: int
    features: tuple[str, ...]
    weights: Weights
    representation: Representation = Raw()
    knots: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidValue(
                f"the name of a model must be letters, digits and _ . - (at most 100), got {self.name!r}"
            )
        whole_number("the version of a model", self.version, least=0)
        object.__setattr__(self, "features", _checked_names(self.features))
        if not isinstance(self.representation, Representation):
            raise InvalidValue(
                f"a representation must be one of duelrank.representation, such as Raw(), got {self.representation!r}"
            )
        object.__setattr__(self, "knots", self._checked_knots())
        object.__setattr__(self, "weights", _checked_weights(self.weights, len(self.features), self._n_weights()))

    @abstractmethod
    def _n_weights(self) -> int:
        """Return the number of weights that the model must have."""

    @abstractmethod
    def _scores(self, columns: Features) -> NDArray[np.float64]:
        """Return the scores of documents from their columns."""

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
                f"knots must have one row per feature ({n_features}) and at least two columns, got shape {knots.shape}"
            )
        if np.isnan(knots).all() and np.isnan(first).all() and knots.shape == first.shape:
            return frozen(knots)
        if not (np.abs(knots) <= FARTHEST).all() or (np.diff(knots, axis=1) < 0.0).any():
            raise InvalidValue(
                f"the knots of each feature must be finite numbers within ±{FARTHEST:g} in ascending order"
            )
        return frozen(knots)

    @cached_property
    def memory(self) -> Memory:
        """The memory that the methods of the representation take."""
        return with_knots(self.representation.start(len(self.features)), self.knots)

    @property
    def has_knots(self) -> bool:
        """Whether knots have been learned; until then, a representation with knots weighs positions within the query's range."""
        return self.knots is not None and not np.isnan(self.knots[0, 0])

    @property
    def domain(self) -> Domain:
        """The domain of the curves; see `Representation.domain`."""
        return "query range" if self.knots is not None and not self.has_knots else self.representation.domain

    @property
    def versioned_name(self) -> str:
        """The name with the version, for engines that need a new name for each model."""
        return f"{self.name}_{self.version:06d}"

    def score(self, features: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of one query's documents, from their raw features; higher is better."""
        raw = Query("", features, missing=self.representation.fills).features
        if raw.shape[1] != len(self.features):
            raise ShapeMismatch(
                f"the model has {counted(len(self.features), 'feature')}, the documents have {raw.shape[1]}"
            )
        return self._scores(self.representation.apply(raw, self.memory))

    @classmethod
    def of(
        cls,
        recipe: Any,
        name: str,
        version: int,
        features: Sequence[str],
        state: State,
        applied: Representation | None = None,
    ) -> Model:
        """Return the state of an algorithm as a model: a `LinearModel`, or a `ScorerModel` if it is not linear.

        Parameters
        ----------
        recipe
            The algorithm.
        name, version, features
            The name and version of the model, and the names of its features.
        state
            The state of the algorithm.
        applied
            The representation that was applied to the features before the algorithm, if it has none of its own.
        """
        representation = getattr(recipe, "representation", applied or Raw())
        knots = knots_of(state.memory.get("representation", {}))
        fields = (name, version, tuple(features), state.weights, representation, knots)
        if recipe.linear:
            return LinearModel(*fields)
        return ScorerModel(*fields, next((part for _, part in walk(recipe) if isinstance(part, Scorer)), None))

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        name: str = "duelrank",
        features: Sequence[str] | None = None,
        representation: Representation | None = None,
        version: int | None = None,
    ) -> Self:
        """Return the model of a learner.

        Parameters
        ----------
        snapshot
            The snapshot of the learner.
        name
            Name of the model.
        features
            Names of the features, by default those of the learner, or f1, f2, … if it has none.
        representation
            The representation that was applied to the features before the learner received them; not for a recipe that has its own.
        version
            Version of the model, by default the number of updates.
        """
        names = snapshot.names if features is None else tuple(features)
        if len(names) != snapshot.n_features:
            raise ShapeMismatch(f"the snapshot has {snapshot.n_features} features, got {len(names)} names")
        recipe = parse(snapshot.algorithm)
        if hasattr(recipe, "representation") and representation is not None:
            raise InvalidValue(f"{snapshot.algorithm} already contains its representation; omit the argument")
        number = snapshot.state.updates if version is None else version
        found = cls.of(recipe, name, number, names, snapshot.state, representation)
        if not isinstance(found, cls):
            raise InvalidValue(f"{snapshot.algorithm} is not a {cls.__name__}; Model.from_snapshot accepts both kinds")
        return found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Model)
            and type(self) is type(other)
            and (self.name, self.version, self.features) == (other.name, other.version, other.features)
            and self.representation == other.representation
            and np.array_equal(self.weights, other.weights)
            and (self.knots is None or np.array_equal(self.knots, other.knots, equal_nan=True))  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]  # holds an array


@dataclass(frozen=True, eq=False)
class LinearModel(Model):
    """A scoring function: weights of the columns that a representation computes from named features.

    Parameters
    ----------
    name
        Name of the model: letters, digits and ``_ . -``.
    version
        A whole number that grows; formats whose engine needs unique names of models use `versioned_name`.
    features
        Unique names, in the order of the columns.
    weights
        (n_columns,) finite numbers, stored as read-only float64: the first column of all features, then the second column of all
        features, and so on.
    representation
        The function from raw feature values to columns; see `duelrank.representation`.
    knots
        (n_features, n_knots) if the representation learns knots; by default its initial knots.

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

    def _n_weights(self) -> int:
        return self.representation.n_columns(len(self.features), self.memory)

    def _scores(self, columns: Features) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = linear_scores(self.weights, columns)
        return scores

    @cached_property
    def curves(self) -> list[Curve]:
        """The contribution of each feature to the score."""
        return self.representation.curves(self.weights, self.memory)

    @property
    def is_linear(self) -> bool:
        """Whether the contribution of every feature is linear."""
        return all(curve.shape == "line" for curve in self.curves)

    def to_json(self) -> str:
        """Return the complete model as JSON text; `from_json` restores it to the bit."""
        return model_to_json(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> LinearModel:
        """Read the text of `to_json`, or raise a `DataFormatError` that states the problem."""
        try:
            return cls(**model_from_json(text))
        except DataFormatError:
            raise
        except DuelrankError as error:
            raise DataFormatError(f"the JSON of a model is wrong: {error}") from None


@dataclass(frozen=True, eq=False)
class ScorerModel(Model):
    """A scoring function that is not linear: a scorer of the columns that a representation computes from named features.

    Parameters
    ----------
    name, version, features, representation, knots
        As in `LinearModel`.
    weights
        All weights of the scorer.
    scorer
        The function from columns to scores; None if the ranker has no `duelrank.scoring.Scorer`.

    Examples
    --------
    >>> from duelrank import Learner
    >>> from duelrank.export.model import ScorerModel
    >>> learner = Learner("mlp-pdgd(hidden=4)", feature_names=["bm25", "price"])
    >>> model = ScorerModel.from_snapshot(learner.snapshot(), "shop")
    >>> model.scorer, len(model.weights)
    (MLP(hidden=4), 16)
    """

    scorer: Scorer | None = None

    def _n_weights(self) -> int:
        columns = self.representation.n_columns(len(self.features), self.memory)
        return len(self.weights) if self.scorer is None else self.scorer.n_weights(columns)

    def _scores(self, columns: Features) -> NDArray[np.float64]:
        return self.known_scorer.scores(self.weights, columns)

    @property
    def known_scorer(self) -> Scorer:
        """The scorer, or `InvalidValue` if there is none."""
        if self.scorer is None:
            raise InvalidValue(f"the ranker {self.name!r} has no scorer, so it cannot be exported")
        return self.scorer


def _checked_names(given: Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names:
        raise InvalidValue("a model needs at least one feature")
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise InvalidValue(f"the name of a feature must be a non-empty text, got {name!r}")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InvalidValue(f"the name of a feature must be valid Unicode, got {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise InvalidValue(f"two features are called {twice!r}; names must be unique")
    return names


def _checked_weights(given: ArrayLike, n_features: int, n_columns: int) -> Weights:
    weights = _numbers(given, "weights")
    if weights.shape != (n_columns,):
        raise ShapeMismatch(f"{n_features} features need {n_columns} weights, got shape {weights.shape}")
    if not np.isfinite(weights).all():
        raise InvalidValue("weights must be finite numbers, found NaN or infinity")
    return frozen(weights)


def _numbers(given: ArrayLike, what: str) -> NDArray[np.float64]:
    """Return a copy in double precision."""
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "iuf":
            raise TypeError(f"found {found.dtype}")
        return found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"{what} must be numbers: {error}") from None


def model_to_json(model: LinearModel) -> str:
    """Return the complete model as JSON text."""
    weights = model.weights.reshape(-1, len(model.features)).T.tolist()  # the first column of all features comes first
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
    """Return the fields of the model that a JSON text describes, or raise an error that states the problem."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"this is not the JSON of a model: {error}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise DataFormatError(f'the JSON of a model must be an object with "kind": "{KIND}"')
    if content.get("format") != FORMAT:
        raise DataFormatError(f"this model has format {content.get('format')!r}; this duelrank reads {FORMAT}")
    try:
        return _fields(content)
    except KeyError as error:
        raise DataFormatError(f"the JSON of a model lacks {error}") from None


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    rows = content["features"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) and set(row) <= _KNOWN for row in rows):
        raise InvalidValue(f"features must be a list of objects with {', '.join(sorted(_KNOWN))}")
    names = tuple(row["name"] for row in rows)
    for name in names:
        if not isinstance(name, str):
            raise InvalidValue(f"the name of a feature must be a non-empty text, got {name!r}")
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
    """Return the numbers as a table, one row per feature."""
    for name, row in zip(names, rows, strict=True):
        if not isinstance(row, list) or len(row) != len(rows[0]):
            raise InvalidValue(
                f"the {what} of {name!r} must be a list of the same length as those of the other features"
            )
        for number in row:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise InvalidValue(f"the {what} of {name!r} must be numbers, got {number!r}")
    try:
        return np.array([[float(number) for number in row] for row in rows])
    except OverflowError:
        raise InvalidValue(f"{what} must be finite numbers, found one beyond the largest float") from None
