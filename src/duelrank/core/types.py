"""Defines the values that the stages exchange, and array aliases whose names state their shapes.

One sign convention, everywhere: a higher score is better, and rankings are best first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duelrank.core.errors import InvalidValue, ShapeMismatch
from duelrank.core.validation import explained, whole_number

Features: TypeAlias = NDArray[np.float64]  # (n_documents, n_features)
Weights: TypeAlias = NDArray[np.float64]  # (n_features,), or the number of weights of a ranker that is not linear
Gradient: TypeAlias = NDArray[np.float64]  # as the weights; all zero if no candidate won
Directions: TypeAlias = NDArray[np.float64]  # (n_candidates, n_features), usually unit rows
Ranking: TypeAlias = NDArray[np.int64]  # (length,) document indices, best first
Rankings: TypeAlias = NDArray[np.int64]  # (n_rankers, n_documents); row 0 is the current ranker
Clicks: TypeAlias = NDArray[np.bool_]  # (length,)
Gains: TypeAlias = NDArray[np.float64]  # (length,) the weight of the action on each document; 0 without an action
Credit: TypeAlias = NDArray[np.float64]  # (n_rankers,); entry 0 is the current ranker
Labels: TypeAlias = NDArray[np.int8]  # (n_documents,) relevance grades, 0 is irrelevant
Boosts: TypeAlias = NDArray[np.float64]  # (n_documents,) what every ranker adds to scores; empty for nothing
Stream: TypeAlias = NDArray[np.uint64]  # (4,) the state of one random stream
Memory: TypeAlias = Mapping[str, Any]  # arrays by name; under the name of a field, the memory of the part in it
Trace: TypeAlias = Mapping[str, NDArray[Any]]  # what `learn` needs to know about how a list was made


#: The boosts of a query without boosts.
NO_BOOSTS: Boosts = np.empty(0)
NO_BOOSTS.flags.writeable = False

_NO_DOCUMENTS: tuple[str, ...] = ()


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array itself if it is read-only, else a read-only copy that no caller can change."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            array = array.copy()
            array.flags.writeable = False
            return array
        owner = owner.base
    return array


@explained
@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query and its candidate documents. It has no labels, so an algorithm cannot use them.

    Parameters
    ----------
    id
        The name of the query; repetitions of a query have the same id.
    features
        (n_documents, n_features), finite numbers; stored as a read-only float64 copy.
    documents
        The ids of the documents, for algorithms that remember documents; without them, a document is known by its row.
    boosts
        (n_documents,) what every ranker adds to the score of each document; without them, nothing.
    missing
        Whether features may be NaN, for values that are missing; only for recipes that begin with ``missing >>``.

    Examples
    --------
    Three shoes with two features each:

    >>> from duelrank import Query
    >>> query = Query("shoes", [[0.1, 0.9], [0.8, 0.2], [0.3, 0.3]])
    >>> query.n_documents, query.features.shape
    (3, (3, 2))
    """

    id: str
    features: Features
    documents: tuple[str, ...] = _NO_DOCUMENTS
    boosts: Boosts = field(default_factory=lambda: NO_BOOSTS)
    missing: bool = False

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            id: str,
            features: ArrayLike,
            documents: Sequence[str] = ...,
            boosts: ArrayLike = ...,
            missing: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise InvalidValue(
                f"the id of a query must be a text, the first argument: Query('shoes', features), got {self.id!r}"
            )
        object.__setattr__(self, "features", _checked_features(self.features, self.missing))
        if self.documents is not _NO_DOCUMENTS:
            object.__setattr__(self, "documents", _checked_documents(self.documents, self.n_documents))
        if self.boosts is not NO_BOOSTS:
            object.__setattr__(self, "boosts", _checked_boosts(self.boosts, self.n_documents))

    @property
    def n_documents(self) -> int:
        """Number of candidate documents."""
        return len(self.features)

    @classmethod
    def trusted(
        cls, id: str, features: Features, documents: tuple[str, ...] = (), boosts: Boosts | None = None
    ) -> Query:
        """Make a query without validation, from arrays that are known to be read-only, C-ordered and finite."""
        query = object.__new__(cls)
        object.__setattr__(query, "id", id)
        object.__setattr__(query, "features", features)
        object.__setattr__(query, "documents", documents)
        object.__setattr__(query, "boosts", NO_BOOSTS if boosts is None else boosts)
        object.__setattr__(query, "missing", False)
        return query

    def with_features(self, features: Features) -> Query:
        """Return the query with other columns, without validation."""
        return Query.trusted(self.id, features, self.documents, self.boosts)

    def with_boosts(self, boosts: Boosts) -> Query:
        """Return the query with other boosts, without validation."""
        return Query.trusted(self.id, self.features, self.documents, boosts)

    def boosted(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of the documents with their boosts."""
        return scores + self.boosts if self.boosts.size else scores

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Query)
            and self.id == other.id
            and np.array_equal(self.features, other.features, equal_nan=True)
            and self.documents == other.documents
            and np.array_equal(self.boosts, other.boosts)
        )

    __hash__ = None  # type: ignore[assignment]  # holds an array


def _checked_documents(given: Any, n_documents: int) -> tuple[str, ...]:
    ids = None if isinstance(given, (str, bytes)) or not isinstance(given, Iterable) else tuple(given)
    if ids is None or not all(isinstance(id, str) for id in ids):
        raise InvalidValue(f"documents must be the ids of the documents, as texts, got {given!r}")
    if len(ids) != n_documents:
        raise ShapeMismatch(
            f"{n_documents} documents have features, so documents must have {n_documents} ids, got {len(ids)}"
        )
    if len(set(ids)) < n_documents:
        raise InvalidValue(f"each document needs an id of its own, got {list(ids)}")
    return ids


def _checked_boosts(given: ArrayLike, n_documents: int) -> Boosts:
    found = checked_vector(given, "boosts", "one number per document")
    if not found.size:
        return NO_BOOSTS
    if found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise InvalidValue(f"boosts must be finite numbers, one per document, got {found.tolist()}")
    if len(found) != n_documents:
        raise ShapeMismatch(
            f"{n_documents} documents have features, so boosts must have {n_documents} entries, got {len(found)}"
        )
    return frozen(np.ascontiguousarray(found, np.float64))


def _checked_features(given: ArrayLike, missing: bool) -> Features:
    features = checked_table(given, missing)
    if features.shape[0] == 0 or features.shape[1] == 0:
        raise ShapeMismatch(f"a query needs at least one document and one feature, got shape {features.shape}")
    return features


def checked_table(given: ArrayLike, missing: bool = False) -> Features:
    """Return features as a read-only, C-ordered float64 table, or raise an error that states the problem and its position.

    ``missing`` is whether NaN is accepted.
    """
    try:
        table = np.asarray(given)
        if table.dtype.kind not in "biufO":
            raise TypeError(f"found {table.dtype}")
        features = np.ascontiguousarray(table, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"features must be numbers in a (documents, features) table: {error}") from None
    if table.ndim != 2:
        raise ShapeMismatch(f"features must be a (documents, features) table, got shape {table.shape}")
    # One pass detects any NaN or infinity; only then is its position searched for (a sum of finite numbers may overflow).
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(features, axis=None)
    if not math.isfinite(total) and not (finite := np.isfinite(features) | (missing & np.isnan(features))).all():
        document, feature = np.argwhere(~finite)[0]
        found = features[document, feature]
        raise InvalidValue(f"features must be finite, found {found} at document {document}, feature {feature}")
    return frozen(features)


@dataclass(frozen=True, slots=True, eq=False)
class Impression:
    """One list as it was shown, with all data about its making that `learn` needs.

    Parameters
    ----------
    query
        The query.
    ranking
        The documents shown, best first, as their rows in the features of the query.
    trace
        Arrays by name that the algorithm recorded while it made the list.

    Examples
    --------
    >>> from duelrank import Learner, Query
    >>> shown = Learner("mgd", n_features=2, length=2).rank(Query("shoes", [[0.1, 0.9], [0.8, 0.2], [0.3, 0.3]]))
    >>> shown.query.id, len(shown.ranking), list(shown.trace)
    ('shoes', 2, ['directions', 'ranks', 'sizes'])
    """

    query: Query
    ranking: Ranking
    trace: Trace = field(default_factory=dict)

    @property
    def boosts(self) -> Boosts:
        """The boosts of the shown documents, in their order; empty if there are none."""
        boosts = self.query.boosts
        if not boosts.size:
            return boosts
        shown = boosts[self.ranking]
        shown.flags.writeable = False  # as those of the query: kernels are compiled for each kind of array
        return shown

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Impression)
            and self.query == other.query
            and np.array_equal(self.ranking, other.ranking)
            and same_arrays(self.trace, other.trace)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays


@explained
@dataclass(frozen=True, slots=True, eq=False)
class Feedback:
    """A user's clicks on a shown list, or other actions on its documents that may weigh more.

    Parameters
    ----------
    clicks
        One flag per shown position: True if the document there was clicked.
    examined
        Number of positions that the user examined; give it only if it was observed.
    weights
        One number per shown position: the weight of the action there, such as 1 for a click and 10 for a purchase; positive at
        clicks, 0 elsewhere. None: every click weighs 1.

    Examples
    --------
    >>> from duelrank import Feedback
    >>> Feedback([True, False, True], weights=[1, 0, 10]).gains
    array([ 1.,  0., 10.])
    >>> Feedback([True, False, True]).gains
    array([1., 0., 1.])
    """

    clicks: Clicks
    examined: int | None = None
    weights: Gains | None = None

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self, clicks: ArrayLike, examined: int | None = None, weights: ArrayLike | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        clicks = _checked_clicks(self.clicks)
        object.__setattr__(self, "clicks", clicks)
        if self.examined is not None:
            object.__setattr__(self, "examined", _checked_depth(self.examined, clicks))
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_gains(self.weights, clicks))

    @classmethod
    def trusted(cls, clicks: Clicks, examined: int | None, weights: Gains | None = None) -> Feedback:
        """Make feedback without validation, such as from the clicks of a simulated user."""
        feedback = object.__new__(cls)
        object.__setattr__(feedback, "clicks", clicks)
        object.__setattr__(feedback, "examined", examined)
        object.__setattr__(feedback, "weights", weights)
        return feedback

    @property
    def gains(self) -> Gains:
        """The gain of each position, as floats: the weight of the click, or 0 without a click."""
        return self.clicks.astype(np.float64) if self.weights is None else self.weights

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Feedback) and self.examined == other.examined and np.array_equal(self.gains, other.gains)
        )

    __hash__ = None  # type: ignore[assignment]  # holds an array


def checked_vector(given: ArrayLike, name: str, meaning: str) -> NDArray[Any]:
    """Return a one-dimensional array, or raise an error that describes the expected content."""
    try:
        vector = np.asarray(given)
    except ValueError as error:
        raise InvalidValue(f"{name} must be {meaning}: {error}") from None
    if vector.ndim != 1:
        raise ShapeMismatch(f"{name} must be {meaning}, got shape {vector.shape}")
    return vector


def _checked_clicks(given: ArrayLike) -> Clicks:
    clicks = checked_vector(given, "clicks", "one flag per shown position")
    if clicks.dtype != np.bool_:
        if clicks.size and (clicks.dtype.kind not in "iuf" or not np.isin(clicks, (0, 1)).all()):
            raise InvalidValue(f"clicks must be True or False (1 or 0) per shown position, got {clicks.tolist()}")
        clicks = clicks.astype(np.bool_)
    return clicks if clicks is not given else clicks.copy()


def _checked_gains(given: ArrayLike, clicks: Clicks) -> Gains:
    found = checked_vector(given, "weights", "one number per shown position")
    if found.dtype.kind not in "biuf" and found.size:
        raise InvalidValue(f"weights must be numbers, one per shown position, got {found.tolist()}")
    if found.shape != clicks.shape:
        raise ShapeMismatch(
            f"{clicks.size} positions were shown, so weights must have {clicks.size} entries, got {found.size}"
        )
    weights = found.astype(np.float64)
    if (wrong := np.flatnonzero(~np.isfinite(weights) | (weights < 0.0))).size:
        raise InvalidValue(
            f"weights must be finite and not negative, got {weights[wrong[0]]} at position {wrong[0] + 1}"
        )
    if (wrong := np.flatnonzero((weights > 0.0) != clicks)).size:
        rule = "weights must be positive at clicks and 0 elsewhere"
        was = "was" if clicks[wrong[0]] else "was not"
        raise InvalidValue(f"{rule}; position {wrong[0] + 1} {was} clicked, and weighs {weights[wrong[0]]:g}")
    return weights


def _checked_depth(examined: object, clicks: Clicks) -> int:
    depth = whole_number("examined", examined, least=0, most=clicks.size)
    if clicks[depth:].any():
        last = int(np.flatnonzero(clicks)[-1]) + 1
        raise InvalidValue(f"examined must be at least {last}, because position {last} was clicked, got {depth}")
    return depth


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The learned state of an algorithm: plain arrays, so it can be stored and compared.

    Parameters
    ----------
    weights
        The weights of the current ranker, read-only: one per feature, or per column of a representation; all weights of a network.
    step
        Number of impressions learned from, whether or not the weights changed.
    updates
        Number of those impressions that changed the weights.
    memory
        The memory of the algorithm: arrays by name; and for each part that has a memory, that memory under the name of the part's
        field.

    Examples
    --------
    >>> from duelrank import Feedback, Learner, Query
    >>> learner, query = Learner("mgd", n_features=2), Query("shoes", [[0.1, 0.9], [0.8, 0.2]])
    >>> for _ in range(10):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 0))
    >>> learner.state.step, learner.state.updates
    (10, 1)
    """

    weights: Weights
    step: int = 0
    updates: int = 0
    memory: Memory = field(default_factory=dict)

    def of(self, part: str) -> State:
        """Return the state as seen by the part in the field ``part``: with the memory of that part only."""
        if not self.memory:
            return self
        return State(self.weights, self.step, self.updates, self.memory.get(part, _NOTHING))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, State)
            and (self.step, self.updates) == (other.step, other.updates)
            and np.array_equal(self.weights, other.weights)
            and same_arrays(self.memory, other.memory)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays


_NOTHING: Memory = {}


def same_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two nested mappings contain equal arrays under equal names."""
    return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) or isinstance(other, Mapping):
        return isinstance(one, Mapping) and isinstance(other, Mapping) and same_arrays(one, other)
    one, other = np.asarray(one), np.asarray(other)
    # A NaN may mean "not known yet".
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")
