"""Defines the interface of algorithms: pure functions on a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe, InvalidValue, ShapeMismatch
from duelrank.core.grammar import parse
from duelrank.core.registry import Part, counted, spell, walk
from duelrank.core.types import Features, Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.core.validation import whole_number
from duelrank.kernels.ranking import linear_scores, rankings
from duelrank.kernels.updates import is_zero
from duelrank.representation import Representation
from duelrank.updates import Update


class _MissingEntry(KeyError):
    """A trace has no entry of that name."""


class _Trace(dict[str, NDArray[Any]]):
    """A trace whose missing entries raise an exception of their own."""

    def __missing__(self, name: str) -> NDArray[Any]:
        raise _MissingEntry(name)


@dataclass(frozen=True, slots=True, eq=False)
class StepExplanation:
    """The components of one step of learning; vectors have one entry per weight.

    Parameters
    ----------
    before, after
        The weights before and after the step.
    direction
        The gradient of the feedback before any projection; zero if the feedback implies none.
    followed
        The gradient after the projection; the direction itself without a projection.
    examined
        One flag per shown position: whether it counts as examined. None for an algorithm that does not use examination.
    """

    before: Weights
    after: Weights
    direction: Gradient
    followed: Gradient
    examined: NDArray[np.bool_] | None = None


@dataclass(frozen=True, repr=False)
class Algorithm(Part, ABC):
    """A recipe of parts. It holds no state: its functions take and return a `State`.

    Feedback may arrive for several impressions at once, in any order, late, more than once or never: an `Impression` contains
    everything that learning needs to know about a list. Feedback that is given twice counts as that of two users.

    Examples
    --------
    A step of learning, without a `Learner`: state in, state out.

    >>> from duelrank import Feedback, Query, parse
    >>> from duelrank.core.randomness import stream
    >>> mgd, query = parse("mgd"), Query("shoes", [[0.1, 0.9], [0.8, 0.2]])
    >>> before = mgd.start(2, stream(1, "start"))
    >>> shown = mgd.rank(before, query, 10, stream(1, "rank"))
    >>> after = mgd.learn(before, shown, Feedback([False, True]), stream(1, "learn"))
    >>> before.step, after.step
    (0, 1)
    """

    kind: ClassVar[str] = "algorithm"
    #: Whether each query has its own model, so that nothing is transferred between queries; the weights then stay zero.
    per_query: ClassVar[bool] = False
    #: Whether the weights are computed from the memory at each step, so that given weights would be lost at the first click.
    weights_follow_memory: ClassVar[bool] = False
    #: Whether a list without a click may change the weights, as in policy gradients with a baseline, where it is a bad reward.
    moves_without_clicks: ClassVar[bool] = False
    #: Whether a score is the sum of weight times column. If not, as in a neural network, no weight belongs to one feature.
    linear: ClassVar[bool] = True
    #: Whether values of features may be missing, which is NaN.
    fills: ClassVar[bool] = False

    def __rrshift__(self, representation: object) -> Algorithm:
        """Return this algorithm with a representation before it: ``representation >> algorithm``."""
        from duelrank.algorithms.represented import Represented

        if isinstance(representation, str):
            representation = parse(representation, Representation)
        return Represented(self, representation) if isinstance(representation, Representation) else NotImplemented

    @abstractmethod
    def start(self, n_features: int, stream: Stream) -> State:
        """Return the state before the first impression."""

    @final
    def rank(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Return the list to show for a query: at most ``length`` documents, best first, with exploration."""
        self.check_features(state, query)
        return self.explore(state, query, min(whole_number("length", length), query.features.shape[0]), stream)

    def n_features(self, state: State) -> int:
        """Return the number of features of documents."""
        return len(state.weights)

    def n_weights(self, n_features: int, memory: Memory) -> int:
        """Return the number of weights for a number of features, in a state with this memory."""
        return n_features

    def scores(self, state: State, features: Features, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of all documents; query i has the rows offsets[i] to offsets[i + 1]."""
        found: NDArray[np.float64] = linear_scores(state.weights, self.columns(state, features, offsets))
        return found

    def deviations(self, state: State) -> NDArray[np.float64] | None:
        """Return the standard deviation of each weight, by the belief of the algorithm; None if it has no belief."""
        return None

    def check_linear(self, consequence: str) -> None:
        """Raise `InvalidRecipe` with the consequence if no weight belongs to one feature."""
        if not self.linear:
            raise InvalidRecipe(f"{spell(self)} is not linear, no weight belongs to one feature: {consequence}")

    def allowed(self, weights: Weights) -> Weights:
        """Return the nearest weights that the update rules in this algorithm can lead to."""
        for _, part in walk(self):
            weights = part.allowed(weights) if isinstance(part, Update) else weights
        return weights

    def check_allowed(self, weights: Weights, names: Sequence[str] | None = None) -> None:
        """Raise `InvalidValue` if this algorithm cannot lead to such weights, so that it cannot start with them.

        Parameters
        ----------
        weights
            One weight per column.
        names
            The names of the features, for the message; used only if there is one per weight.
        """
        nearest = self.allowed(weights)
        changed = np.flatnonzero((nearest != weights) & np.isfinite(weights))
        if changed.size:
            place = int(changed[0])
            of = f" of {names[place]!r}" if names is not None and len(names) == len(weights) else ""
            raise InvalidValue(
                f"{spell(self)} cannot start with the weight {weights[place]:g}{of}, which its updates never reach; the nearest "
                f"possible weight is {nearest[place]:g}"
            )

    def columns(self, state: State, features: Features, offsets: NDArray[np.int64]) -> Features:
        """Return the columns that a linear ranker weighs, of all documents; query i has the rows offsets[i] to offsets[i + 1]."""
        return features

    def carry(self, state: State, to: State) -> Weights:
        """Return the weights of a state, converted to the columns of another state."""
        return state.weights

    def carry_memory(
        self, memory: Memory, n_features: int, carry: Callable[[Weights], Weights], stream: Stream
    ) -> Memory:
        """Return the memory for other columns; by default it starts again, because it is of the old columns.

        Parameters
        ----------
        n_features
            The new number of columns.
        carry
            Converts weights of the old columns to the new ones; a linear function.
        """
        return self.start(n_features, stream).memory

    def recalled(self, state: State, query: Query) -> Query:
        """Return the query with the boosts that the state remembers for it; by default the query itself."""
        return query

    @abstractmethod
    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Make the list; ``length`` is at most the number of documents."""

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Return the trace that `learn` needs for a list that another system made; raise `InvalidRecipe` if that is impossible.

        The clicks are interpreted as if this state had made the list. Such lists do not explore, so they carry less information.
        """
        raise InvalidRecipe(f"{self!r} can learn only from lists that it has made itself")

    def best(self, state: State, query: Query, stream: Stream) -> Ranking:
        """Rank all documents by the current weights, without exploration."""
        self.check_features(state, query)
        nothing = np.empty((0, state.weights.shape[0]))
        ranking: Ranking = rankings(state.weights, nothing, 0.0, query.features, query.boosts, stream)[0]
        return ranking

    @abstractmethod
    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient that the feedback implies (zero if it implies none) and the new memory."""

    @abstractmethod
    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the new weights and memory after a step along a gradient that is not zero.

        The memory in the given state is the one that `gradient` returned.
        """

    def learn(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> State:
        """Return the state after the feedback on an impression: gradient, then update, then memory."""
        if feedback.clicks.shape != impression.ranking.shape:
            shown, given = impression.ranking.shape[0], feedback.clicks.shape[0]
            raise ShapeMismatch(f"{shown} documents were shown, so clicks must have {shown} entries, got {given}")
        self.check_features(state, impression.query)
        try:
            gradient, memory = self.gradient(state, impression, feedback, stream)
        except KeyError:
            self._check_trace(state, impression, feedback, stream)
            raise
        if is_zero(gradient):
            return State(state.weights, state.step + 1, state.updates, memory)
        if memory is not state.memory:
            state = State(state.weights, state.step, state.updates, memory)
        moved = self.update(state, gradient)
        if not isinstance(moved, tuple):
            raise InvalidRecipe(f"update of {self!r} must return weights and memory, got {type(moved).__name__}")
        weights, memory = moved
        weights.setflags(write=False)  # states are shared, so they must be read-only
        return State(weights, state.step + 1, state.updates + 1, memory)

    def _check_trace(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> None:
        """Raise an error if the gradient needs an entry that the trace does not have; ignore any other KeyError."""
        try:
            self.gradient(state, replace(impression, trace=_Trace(impression.trace)), feedback, stream.copy())
        except _MissingEntry as missing:
            made = f"an impression of {self!r} must have {missing} in its trace"
            has = ", ".join(impression.trace) or "nothing"
            raise InvalidValue(f"{made}; this one, made by another algorithm, has {has}") from None
        except KeyError:
            return

    def explain_step(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> StepExplanation:
        """Return the components of the step that `learn` makes with the same arguments; the stream does not advance."""
        direction, _ = self.gradient(state, impression, feedback, stream.copy())
        after = self.learn(state, impression, feedback, stream.copy())
        return StepExplanation(state.weights, after.weights, direction, direction)

    def check_features(self, state: State, query: Query) -> None:
        """Raise `ShapeMismatch` if a query has another number of features than the ranker, or an error for missing values."""
        if query.missing and not self.fills:
            raise InvalidRecipe(
                f"{spell(self)} needs all values: begin it with missing, as in missing >> {spell(self)}"
            )
        if (found := query.features.shape[1]) != (expected := self.n_features(state)):
            raise ShapeMismatch(f"the ranker has {counted(expected, 'feature')}, query {query.id!r} has {found}")


class Wrapper(Algorithm, ABC):
    """An algorithm around another one, ``base``, with its properties."""

    base: Algorithm

    @property
    def linear(self) -> bool:  # type: ignore[override]  # of this recipe
        """Whether the base is linear."""
        return self.base.linear

    @property
    def weights_follow_memory(self) -> bool:  # type: ignore[override]  # of this recipe
        """Whether the base computes its weights from its memory."""
        return self.base.weights_follow_memory

    @property
    def moves_without_clicks(self) -> bool:  # type: ignore[override]  # of this recipe
        """Whether the base may change its weights without a click."""
        return self.base.moves_without_clicks
