"""Representations: what an algorithm sees of the features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe
from duelrank.core.registry import Part, alias, register, spell
from duelrank.core.types import Features, Memory, Stream, Weights, frozen
from duelrank.kernels.datasets import scale_queries, scale_query
from duelrank.kernels.representation import query_ranks
from duelrank.representation.fixed import Fixed

#: What curves are functions of: the value of a feature as it came, after fixed scalings, its place in the range of the query, or
#: its rank there.
Domain: TypeAlias = Literal["value", "scaled value", "query range", "query rank"]


@dataclass(frozen=True, eq=False)
class Curve:
    """What one feature adds to the score, as a function of its value.

    Parameters
    ----------
    values
        (n_points,) values of the feature, ascending.
    heights
        (n_points,) what each adds to the score. Of a line and of ramps: straight between two points, and level outside unless
        it is a `line`; where several points have one value the curve jumps, and is halfway at the value itself. Of steps: each
        height holds from behind its value on, the first before all.
    shape
        "line": the straight line through two points, without end; "ramps": straight between points; "steps": level between.

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
        """Return what each value adds to the score."""
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

    It holds parameters only. What it has learned of the features travels in the state of a ranker, as the memory of this part;
    an array there, ``knots``, determines the columns together with the parameters. There are one or more columns for each
    feature: one for every feature, in order, then the second one of every feature, and so on (see `by_feature`).
    ``query-scaled >> ramps(pieces=8) >> wmgd-dsp`` puts representations before an algorithm, in Python and in texts.
    """

    kind: ClassVar[str] = "representation"
    #: Whether it learns from the documents that it sees.
    learns: ClassVar[bool] = False
    #: Whether all its columns are between 0 and 1.
    within_unit: ClassVar[bool] = False
    #: What its curves are functions of.
    domain: ClassVar[Domain] = "value"

    def __rshift__(self, then: object) -> Representation:
        """Return this representation followed by another one; an algorithm takes it as what it sees."""

        return Chain(self, then) if isinstance(then, Representation) else NotImplemented

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Return the memory before the first document; ``unit`` says that all values are known to be between 0 and 1."""
        return {}

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return the number of columns for so many features."""
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
            What was known before.
        features
            Of the documents of the list, as they came.
        step
            Number of lists that came before it.
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
        """Return weights and memory for other features, of which each was the feature of this number, or is new (−1).

        Features that stay keep their curves; the weights of new ones are 0.
        """
        return frozen(rows_of(weights, features, 0.0)), memory

    @abstractmethod
    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return what each feature adds to the score."""


def by_feature(columns: NDArray[np.float64], n_features: int) -> NDArray[np.float64]:
    """Return what is given for all columns, such as weights, with one row for each feature: (…, n_features, n_each)."""
    return columns.reshape(*columns.shape[:-1], -1, n_features).swapaxes(-1, -2)


def rows_of(table: NDArray[Any], rows: NDArray[np.int64], new: Any) -> NDArray[Any]:
    """Return some rows of a table, and for each −1 a new one."""
    found = np.empty((len(rows), *table.shape[1:]), table.dtype)
    found[rows >= 0] = table[rows[rows >= 0]]
    found[rows < 0] = new
    return found


def same_knots(one: Memory, other: Memory) -> bool:
    """Whether two memories of a representation give the same columns."""
    first, second = knots_of(one), knots_of(other)
    if first is second or first is None or second is None:
        return first is second
    return np.array_equal(first, second, equal_nan=True)  # NaN before anything is known


def knots_of(memory: Memory) -> NDArray[np.float64] | None:
    """Return the knots in the memory of a representation, None where it learns nothing."""
    found: NDArray[np.float64] | None = memory.get("knots")
    return found


def with_knots(memory: Memory, knots: NDArray[np.float64] | None) -> Memory:
    """Return the memory of a representation with other knots; the same one where None are given."""
    if knots is None:
        return memory
    return {**memory, "knots": knots}


@register
@dataclass(frozen=True, repr=False)
class Raw(Representation):
    """Weigh the features as they are: only where all of them have a similar range.

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
        """Return a straight line of the weight's slope for each feature."""
        return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


alias("raw", Raw())


@register
@dataclass(frozen=True, repr=False)
class QueryScaled(Representation):
    """Scale each feature to [0, 1] among the documents of a query; 0 if all values are equal: what the field has always done.

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
        """Scale within these documents, bit for bit as data sets are scaled for training."""
        return query_scaled(features)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Scale within each query."""
        scaled = np.empty(features.shape)
        scale_queries(features, offsets, np.arange(features.shape[1]), scaled)
        return scaled

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return a straight line from 0 to the weight for each feature."""
        return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


def query_scaled(features: Features) -> Features:
    """Return the features of one query's documents, each scaled to [0, 1] among them."""
    scaled: Features = scale_query(features)
    return scaled


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
        return [Curve(np.array([0.0, 1.0]), np.array([0.0, weight]), "line") for weight in weights.tolist()]


alias("query-ranks", QueryRanks())


@register
@dataclass(frozen=True, repr=False)
class Chain(Representation):
    """Apply one representation to what another returns; written ``first >> then``. Its memory is that of the second one.

    Parameters
    ----------
    first
        A representation that learns nothing, with one column for each feature.
    then
        Any representation but another chain.

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

    @property
    def spelling(self) -> str:
        """Both, with ``>>`` between them."""
        return f"{spell(self.first)} >> {spell(self.then)}"

    @property
    def learns(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether the second one learns from the documents that it sees."""
        return self.then.learns

    @property
    def within_unit(self) -> bool:  # type: ignore[override]  # of this chain
        """Whether all columns are between 0 and 1."""
        return self.then.within_unit

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # of this chain
        """What the curves are functions of."""
        if self.then.domain != "value":
            return self.then.domain
        return "scaled value" if isinstance(self.first, Fixed) else self.first.domain

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
        """Let the second one see what the first makes of the documents."""
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
        """Return the curves of the second one, over what the first returns."""
        return self.then.curves(weights, memory)
