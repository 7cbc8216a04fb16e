"""Defines the interface of representations and the curves that they show; raw, query-scaled and query-ranked features, chains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe, ShapeMismatch
from duelrank.core.registry import Part, alias, counted, register, spell
from duelrank.core.types import Features, Memory, Stream, Weights, frozen
from duelrank.kernels.datasets import scale_queries, scale_query
from duelrank.kernels.representation import filled, query_ranks

#: The argument of curves: the value of a feature as given, the value after fixed scalings, its place in the range of the query, or
#: its rank in the query.
Domain: TypeAlias = Literal["value", "scaled value", "query range", "query rank"]


@dataclass(frozen=True, eq=False)
class Curve:
    """The contribution of one feature to the score, as a function of its value.

    Parameters
    ----------
    values
        (n_points,) values of the feature, ascending.
    heights
        (n_points,) the contribution of each. For ramps, a curve jumps where several points have the same value, and is halfway at
        the value itself. For steps, each height holds for values above its own, and the first also for all below.
    shape
        "line": the infinite straight line through two points; "ramps": straight between points, constant outside; "steps":
        constant between points.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Curve
    >>> curve = Curve(values=np.array([0.0, 20.0, 100.0]), heights=np.array([0.0, 1.0, 0.5]), shape="ramps")
    >>> curve.at(np.array([10.0, 60.0, 500.0])).tolist()
    [0.5, 0.75, 0.5]
    """

    values: NDArray[np.float64]
    heights: NDArray[np.float64]
    shape: Literal["line", "ramps", "steps"]

    def at(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the contribution of each value."""
        if self.shape == "steps":
            return self.heights[np.searchsorted(self.values[1:], values, "left")]
        if self.shape == "ramps":
            first = np.searchsorted(self.values, values, "left")
            last = np.searchsorted(self.values, values, "right") - 1
            halfway = 0.5 * self.heights[np.minimum(first, len(self.heights) - 1)] + 0.5 * self.heights[last]
            return np.where(first < last, halfway, np.interp(values, self.values, self.heights))
        (low, high), (bottom, top) = self.values, self.heights
        found: NDArray[np.float64] = bottom + (values - low) * ((top - bottom) / (high - low))
        return found


@dataclass(frozen=True, repr=False)
class Representation(Part, ABC):
    """The stage between a query and an algorithm: it turns the features of documents into the columns that are weighed.

    It holds parameters only. Learned data about the features is in the state of a ranker, as the memory of this part; its array
    ``knots`` and the parameters determine the columns. There are one or more columns for each feature: the first column of every
    feature, in order, then the second one of every feature, and so on (see `by_feature`).
    ``query-scaled >> ramps(pieces=8) >> wmgd-dsp`` puts representations before an algorithm, in Python and in texts.
    """

    kind: ClassVar[str] = "representation"
    #: Whether it learns from the documents that it sees.
    learns: ClassVar[bool] = False
    #: Whether all its columns are between 0 and 1.
    within_unit: ClassVar[bool] = False
    #: Whether values may be missing, which is NaN: it, or the first representation of a chain, replaces them.
    fills: ClassVar[bool] = False
    #: The argument of its curves.
    domain: ClassVar[Domain] = "value"
    #: The argument of the curves of a representation that follows it; None for its own domain.
    following_domain: ClassVar[Domain | None] = None

    def __rshift__(self, then: object) -> Representation:
        """Return this representation followed by another one; for an algorithm, see `Algorithm.__rrshift__`."""
        return Chain(self, then) if isinstance(then, Representation) else NotImplemented

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Return the memory before the first document; ``unit`` says that all values are known to be between 0 and 1."""
        return {}

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return the number of columns for a number of features."""
        return n_features

    @abstractmethod
    def apply(self, features: Features, memory: Memory) -> Features:
        """Return the columns of one query's documents, (n_documents, n_columns)."""

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Return the columns of many queries' documents; query i has the rows offsets[i] to offsets[i + 1]."""
        rows = [self.apply(features[start:stop], memory) for start, stop in pairwise(offsets.tolist()) if start < stop]
        return np.concatenate(rows) if rows else np.empty((0, self.n_columns(features.shape[1], memory)))

    def observe(
        self, memory: Memory, features: Features, step: int, stream: Stream, first: Representation | None = None
    ) -> Memory:
        """Return the memory after another list.

        Parameters
        ----------
        memory
            The memory before the list.
        features
            The features of the documents of the list, before any representation.
        step
            Number of earlier lists.
        stream
            The random stream of this list.
        first
            The representation that comes before this one.
        """
        return memory

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Return the weights that give the same scores after the knots have moved, as nearly as the new knots allow."""
        return weights

    def selected(
        self, weights: Weights, memory: Memory, features: NDArray[np.int64], unit: bool = False
    ) -> tuple[Weights, Memory]:
        """Return weights and memory for another set of features, each given by its number in the old set, or −1 if it is new.

        Features that stay keep their curves; the weights of new ones are 0.
        """
        return frozen(rows_of(weights, features, 0.0)), memory

    @abstractmethod
    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return the contribution of each feature to the score."""


@register
@dataclass(frozen=True, repr=False)
class Raw(Representation):
    """Weigh the features as they are; suitable only if all of them have a similar range.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Raw
    >>> Raw().apply(np.array([[5.0, 0.3]]), {}).tolist()
    [[5.0, 0.3]]
    """

    def apply(self, features: Features, memory: Memory) -> Features:
        """Return the features."""
        return features

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Return the features."""
        return features

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line for each feature, with the weight as its slope."""
        return _lines(weights)


alias("raw", Raw())


@register
@dataclass(frozen=True, repr=False)
class QueryScaled(Representation):
    """Scale each feature to [0, 1] among the documents of a query; 0 if all values are equal. This is the usual scaling.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import QueryScaled
    >>> QueryScaled().apply(np.array([[10.0, 3.0], [30.0, 3.0], [20.0, 3.0]]), {}).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    """

    within_unit: ClassVar[bool] = True
    domain: ClassVar[Domain] = "query range"

    def apply(self, features: Features, memory: Memory) -> Features:
        """Scale within these documents, to the bit as data sets are scaled for training."""
        return query_scaled(features)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Scale within each query."""
        scaled = np.empty(features.shape)
        scale_queries(features, offsets, np.arange(features.shape[1]), scaled)
        return scaled

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line from 0 to the weight for each feature."""
        return _lines(weights)


alias("query-scaled", QueryScaled())


@register
@dataclass(frozen=True, repr=False)
class QueryRanks(Representation):
    """Replace each value by its rank among the documents of the query: 0 for the least, 1 for the largest, ties in the middle.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import QueryRanks
    >>> QueryRanks().apply(np.array([[5.0], [900.0], [5.0], [20.0]]), {}).ravel().round(3).tolist()
    [0.167, 1.0, 0.167, 0.667]
    """

    within_unit: ClassVar[bool] = True
    domain: ClassVar[Domain] = "query rank"

    def apply(self, features: Features, memory: Memory) -> Features:
        """Rank within these documents."""
        ranks: Features = query_ranks(features)
        return ranks

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line from 0 to the weight for each feature."""
        return _lines(weights)


alias("query-ranks", QueryRanks())


@register
@dataclass(frozen=True, repr=False)
class Chain(Representation):
    """Apply one representation to the result of another; written ``first >> then``. Its memory is that of the second one.

    Parameters
    ----------
    first
        A representation that does not learn, with one column for each feature.
    then
        Any representation except a chain.

    Examples
    --------
    Prices become places in the range of the query, and then two ramps each:

    >>> import numpy as np
    >>> from duelrank.representation import QueryScaled, Ramps
    >>> QueryScaled() >> Ramps(pieces=2)
    Chain(first=QueryScaled(), then=Ramps(pieces=2))
    >>> halves = {"knots": np.array([[0.0, 0.5, 1.0]])}
    >>> (QueryScaled() >> Ramps(pieces=2)).apply(np.array([[10.0], [25.0], [30.0]]), halves).tolist()
    [[0.0, 0.0], [1.0, 0.5], [1.0, 1.0]]
    """

    first: Representation
    then: Representation

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first.learns:
            raise InvalidRecipe(
                f"{self.first!r} learns from the documents, so it can only be the last representation before the algorithm"
            )
        if isinstance(self.then, Chain):
            raise InvalidRecipe(f"write {self!r} as one chain, from left to right: a >> b >> c")
        if self.then.fills:
            raise InvalidRecipe(
                f"{self!r} replaces missing values too late; what replaces them is the first representation"
            )

    @property
    def spelling(self) -> str:
        """The texts of both, with ``>>`` between them."""
        return f"{spell(self.first)} >> {spell(self.then)}"

    @property
    def learns(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether the second one learns from the documents that it sees."""
        return self.then.learns

    @property
    def fills(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether the first one replaces missing values."""
        return self.first.fills

    @property
    def within_unit(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether all columns are between 0 and 1."""
        return self.then.within_unit

    @property
    def learning_only(self) -> tuple[str, ...]:  # type: ignore[override]  # of this chain
        """The entries of the memory of the second one that only learning needs."""
        return self.then.learning_only

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # of this chain
        """The argument of the curves."""
        if self.then.domain != "value":
            return self.then.domain
        return self.first.following_domain or self.first.domain

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Start as the second one does; raise `ShapeMismatch` if the first is for another number of features."""
        self.first.start(n_features)
        return self.then.start(n_features, self.first.within_unit)

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return the number of columns of the second one."""
        return self.then.n_columns(n_features, memory)

    def apply(self, features: Features, memory: Memory) -> Features:
        """Apply both."""
        return self.then.apply(self.first.apply(features, {}), memory)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Apply both."""
        return self.then.apply_all(self.first.apply_all(features, offsets, {}), offsets, memory)

    def observe(
        self, memory: Memory, features: Features, step: int, stream: Stream, first: Representation | None = None
    ) -> Memory:
        """Let the second one observe the documents as the first one represents them."""
        return self.then.observe(memory, features, step, stream, self.first)

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Carry the weights of the second one."""
        return self.then.carry(weights, before, after)

    def selected(
        self, weights: Weights, memory: Memory, features: NDArray[np.int64], unit: bool = False
    ) -> tuple[Weights, Memory]:
        """Select as the second one does."""
        return self.then.selected(weights, memory, features, self.first.within_unit)

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return the curves of the second one, as functions of the result of the first."""
        return self.then.curves(weights, memory)


@register
@dataclass(frozen=True, repr=False)
class Missing(Representation):
    """Replace missing values, which are NaN; always the first representation.

    A neutral value is the mean of the values of the other documents of the query. The document then gains or loses nothing by this
    feature against the average of the others, whatever the weight, and the least and the largest value of the query stay what they
    are. A 0 would be a value like any other: a missing price would be the cheapest.

    Parameters
    ----------
    values
        For each feature "neutral", the number that a missing value counts as, or "never"; empty: all are neutral. The service
        refuses missing values where they are "never".

    Examples
    --------
    A shoe without a price counts as one with a middle price:

    >>> import numpy as np
    >>> from duelrank.representation import Missing, QueryScaled
    >>> shoes = np.array([[20.0], [60.0], [np.nan]])
    >>> Missing().apply(shoes, {}).ravel().tolist(), (Missing() >> QueryScaled()).apply(shoes, {}).ravel().tolist()
    ([20.0, 60.0, 40.0], [0.0, 1.0, 0.5])
    """

    fills: ClassVar[bool] = True

    values: tuple[float | Literal["neutral", "never"], ...] = ()

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Return an empty memory; raise `ShapeMismatch` if the values are for another number of features."""
        if self.values and len(self.values) != n_features:
            raise ShapeMismatch(f"values for {counted(len(self.values), 'missing feature')} do not fit {n_features}")
        return {}

    def lacking(self, names: Sequence[str]) -> dict[str, float | str]:
        """Return what a missing value counts as, for those of these features whose values may be missing."""
        return {name: value for name, value in zip(names, self._of(len(names)), strict=True) if value != "never"}

    def numbers(self, n_features: int) -> NDArray[np.float64]:
        """Return the number of each feature, NaN for one that is neutral."""
        return frozen(np.array([np.nan if isinstance(each, str) else each for each in self._of(n_features)]))

    def _of(self, n_features: int) -> tuple[float | str, ...]:
        return self.values or ("neutral",) * n_features

    def apply(self, features: Features, memory: Memory) -> Features:
        """Replace the missing values of one query's documents."""
        found: Features = filled(features, self.numbers(features.shape[1]))
        return found

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line for each feature, with the weight as its slope."""
        return _lines(weights)


alias("missing", Missing())


def split_missing(representation: Representation) -> tuple[Missing | None, Representation]:
    """Return what replaces missing values, None for nothing, and the rest of a representation."""
    if isinstance(representation, Missing):
        return representation, Raw()
    if not isinstance(representation, Chain):
        return None, representation
    missing, first = split_missing(representation.first)
    if missing is None:
        return None, representation
    return missing, representation.then if isinstance(first, Raw) else Chain(first, representation.then)


def with_missing(missing: Missing | None, rest: Representation) -> Representation:
    """Return a representation before which missing values are replaced; the inverse of `split_missing`."""
    if missing is None or isinstance(rest, Raw):
        return missing or rest
    return Chain(with_missing(missing, rest.first), rest.then) if isinstance(rest, Chain) else Chain(missing, rest)


def query_scaled(features: Features) -> Features:
    """Return the features of one query's documents, each scaled to [0, 1] among them."""
    scaled: Features = scale_query(features)
    return scaled


def by_feature(columns: NDArray[np.float64], n_features: int) -> NDArray[np.float64]:
    """Return an array over columns, such as weights, with one row for each feature: (…, n_features, n_each)."""
    return columns.reshape(*columns.shape[:-1], -1, n_features).swapaxes(-1, -2)


def rows_of(table: NDArray[Any], rows: NDArray[np.int64], new: Any) -> NDArray[Any]:
    """Return some rows of a table, with the value ``new`` for each row number of −1."""
    found = np.empty((len(rows), *table.shape[1:]), table.dtype)
    found[rows >= 0] = table[rows[rows >= 0]]
    found[rows < 0] = new
    return found


def _lines(weights: Weights) -> list[Curve]:
    return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


def same_knots(one: Memory, other: Memory) -> bool:
    """Return whether two memories of a representation give the same columns."""
    first, second = knots_of(one), knots_of(other)
    if first is second or first is None or second is None:
        return first is second
    return np.array_equal(first, second, equal_nan=True)  # NaN before there are knots


def knots_of(memory: Memory) -> NDArray[np.float64] | None:
    """Return the knots in the memory of a representation; None if it does not learn."""
    found: NDArray[np.float64] | None = memory.get("knots")
    return found


def with_knots(memory: Memory, knots: NDArray[np.float64] | None) -> Memory:
    """Return the memory of a representation with other knots; the memory itself for None."""
    if knots is None:
        return memory
    return {**memory, "knots": knots}
