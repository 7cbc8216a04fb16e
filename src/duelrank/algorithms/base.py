"""Defines the interface of algorithms: pure functions on a state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe, InvalidValue, ShapeMismatch
from duelrank.core.grammar import parse
from duelrank.core.registry import Part, spell, walk
from duelrank.core.types import Features, Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.core.validation import whole_number
from duelrank.kernels.ranking import rankings
from duelrank.kernels.updates import is_zero
from duelrank.representation import Representation
from duelrank.updates import Update

__all__ = ["Algorithm", "StepExplanation"]


class _MissingEntry(KeyError):
    """A trace has no entry of that name."""


class _Trace(dict[str, NDArray[Any]]):
    """A trace whose missing entries can be told from those of other mappings."""

    def __missing__(self, name: str) -> NDArray[Any]:
        raise _MissingEntry(name)


@dataclass(frozen=True, slots=True, eq=False)
class StepExplanation:
    """What one step of learning was made of; vectors are in the columns that the weights are for.

    Parameters
    ----------
    before, after
        The weights.
    direction
        Where the feedback points, before any projection; zero where it says nothing.
    followed
        What was followed of it; the direction itself where nothing is projected.
    examined
        One flag per shown position: whether it was taken as examined. None for an algorithm that does not ask.
    """

    before: Weights
    after: Weights
    direction: Gradient
    followed: Gradient
    examined: NDArray[np.bool_] | None = None


@dataclass(frozen=True, repr=False)
class Algorithm(Part, ABC):
    """A recipe of parts. It holds no state: what was learned is in the `State` that its functions take and return.

    Impressions may be in flight at the same time and be learned from in any order, late, more than once or never: all that learning
    needs to know of a list travels in its `Impression`. Feedback that is given twice counts as two users.

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
    #: Whether the weights are computed anew from the memory, so that other weights would be lost at the first click.
    weights_follow_memory: ClassVar[bool] = False

    #: Whether a list without a click may move the weights, as in policy gradients with a baseline: no click is a bad reward then.
    moves_without_clicks: ClassVar[bool] = False

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

    def allowed(self, weights: Weights) -> Weights:
        """Return the nearest weights that the update rules in this algorithm would ever lead to."""
        for _, part in walk(self):
            weights = part.allowed(weights) if isinstance(part, Update) else weights
        return weights

    def check_allowed(self, weights: Weights, names: Sequence[str] | None = None) -> None:
        """Raise `InvalidValue` where this algorithm would never lead to such weights, so that it cannot start with them.

        Parameters
        ----------
        weights
            One for each column.
        names
            Of the features, for the sentence; used where there is one for each weight.
        """
        nearest = self.allowed(weights)
        changed = np.flatnonzero((nearest != weights) & np.isfinite(weights))
        if changed.size:
            place = int(changed[0])
            of = f" of {names[place]!r}" if names is not None and len(names) == len(weights) else ""
            raise InvalidValue(
                f"{spell(self)} cannot start with the weight {weights[place]:g}{of}, to which it would never lead; the nearest "
                f"that it can have is {nearest[place]:g}"
            )

    def columns(self, state: State, features: Features, offsets: NDArray[np.int64]) -> Features:
        """Return the numbers that the weights are for; query i has the documents offsets[i] to offsets[i + 1]."""
        return features

    def carry(self, state: State, to: State) -> Weights:
        """Return the weights of a state as weights of the columns of another one."""
        return state.weights

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
        ranking: Ranking = rankings(state.weights, nothing, 0.0, query.features, stream)[0]
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
        """Raise an error if the gradient needs an entry that the trace does not have; any other KeyError is not of the trace."""
        try:
            self.gradient(state, replace(impression, trace=_Trace(impression.trace)), feedback, stream.copy())
        except _MissingEntry as missing:
            made = f"an impression of {self!r} must have {missing} in its trace"
            has = ", ".join(impression.trace) or "nothing"
            raise InvalidValue(f"{made}; this one, made by another algorithm, has {has}") from None
        except KeyError:
            return

    def explain_step(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> StepExplanation:
        """Return what `learn` does with the same arguments, in its parts; nothing changes, the stream neither."""
        direction, _ = self.gradient(state, impression, feedback, stream.copy())
        after = self.learn(state, impression, feedback, stream.copy())
        return StepExplanation(state.weights, after.weights, direction, direction)

    def check_features(self, state: State, query: Query) -> None:
        """Raise `ShapeMismatch` if a query has another number of features than the ranker."""
        if (found := query.features.shape[1]) != (expected := self.n_features(state)):
            raise ShapeMismatch(f"the ranker has {expected} features, query {query.id!r} has {found}")
