"""Puts a representation of the features before an algorithm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import Algorithm, StepExplanation, Wrapper
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.memory import completed, lasting, replaced
from duelrank.core.registry import register, spell, walk
from duelrank.core.types import (
    Features,
    Feedback,
    Gradient,
    Impression,
    Memory,
    Query,
    Ranking,
    State,
    Stream,
    Weights,
    frozen,
)
from duelrank.representation import QueryScaled, Representation
from duelrank.representation.base import knots_of, same_knots, with_knots


@register
@dataclass(frozen=True, repr=False)
class Represented(Wrapper):
    """Run an algorithm on a representation of the features; written ``query-scaled >> ramps >> mgd-dsp``.

    The state has one weight per column of the representation, which has one or more columns per feature; its memory is that of the
    base, with the memory of the representation under "representation". Feedback on a list is learned in the representation that the
    list was ranked with, even if its knots have moved since: the weights are converted to the old knots, and the change of the
    weights is converted back, as curves over the values of the features.

    Parameters
    ----------
    base
        The algorithm; it sees the columns as its features.
    representation
        The representation of the features.

    Examples
    --------
    Raw features as in a shop: large numbers, such as prices, dominate similarities from 0 to 1 unless all are scaled.

    >>> from duelrank import simulate
    >>> for recipe in ("mgd-dsp", "query-scaled >> mgd-dsp"):
    ...     record = simulate(recipe, "Bumpy(n_queries=40, scale='none')", "perfect", impressions=200)
    ...     print(record.offline[-1].round(2), recipe)
    0.39 mgd-dsp
    0.73 query-scaled >> mgd-dsp
    """

    base: Algorithm
    representation: Representation = QueryScaled()

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(isinstance(part, Represented) for _, part in walk(self.base)):
            raise InvalidRecipe(f"{self.base!r} has a representation already; put all of them before one algorithm")
        if self.representation.learns and self.base.weights_follow_memory:
            raise InvalidRecipe(
                f"{self.base!r} computes its weights from all documents it has seen, so their representation must never change; "
                "use one that does not learn, such as query-scaled"
            )
        if self.representation.learns and not self.base.linear:
            self.base.check_linear(
                f"its weights cannot be converted when the knots of {spell(self.representation)} move; use a representation that "
                "does not learn, such as query-scaled"
            )
        if self.base.per_query:
            raise InvalidRecipe(f"{self.base!r} learns a model for each query and uses no features")

    @property
    def spelling(self) -> str:
        """The representation, ``>>`` and the algorithm."""
        return f"{spell(self.representation)} >> {spell(self.base)}"

    @property
    def fills(self) -> bool:  # type: ignore[override]  # of this recipe
        """Whether the representation replaces missing values."""
        return self.representation.fills

    def start(self, n_features: int, stream: Stream) -> State:
        """Start as the base does, with the columns that the representation starts with."""
        memory = self.representation.start(n_features)
        begun = self.base.start(self.representation.n_columns(n_features, memory), stream)
        return State(begun.weights, begun.step, begun.updates, replaced(begun.memory, "representation", memory))

    def n_features(self, state: State) -> int:
        """Return the number of features before the representation."""
        seen = _seen(state)
        knots = knots_of(seen)
        if knots is not None:
            return len(knots)
        return self.base.n_features(_own(state)) // self.representation.n_columns(1, seen)

    def n_weights(self, n_features: int, memory: Memory) -> int:
        """Return the number of weights of the base for the columns."""
        return self.base.n_weights(self.representation.n_columns(n_features, memory.get("representation", {})), memory)

    def scores(self, state: State, features: Features, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores that the base gives to the columns."""
        return self.base.scores(_own(state), self.columns(state, features, offsets), offsets)

    def deviations(self, state: State) -> NDArray[np.float64] | None:
        """Return the standard deviation of the weight of each column."""
        return self.base.deviations(_own(state))

    def columns(self, state: State, features: Features, offsets: NDArray[np.int64]) -> Features:
        """Return the representation of the documents."""
        return self.representation.apply_all(features, offsets, _seen(state))

    def carry(self, state: State, to: State) -> Weights:
        """Return the same curves over the knots of another state."""
        return self.representation.carry(state.weights, _seen(state), _seen(to))

    def recalled(self, state: State, query: Query) -> Query:
        """Return the query with the boosts that the base remembers for it."""
        return self.base.recalled(_own(state), query)

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Explore as the base does; the trace includes the columns and the knots."""
        seen = _seen(state)
        inner = self.base.explore(_own(state), self._query(seen, query), length, stream)
        return _traced(query, inner, seen)

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Observe a list as the base does."""
        seen = _seen(state)
        inner = self.base.observe_list(_own(state), self._query(seen, query), ranking, stream)
        return _traced(query, inner, seen)

    def best(self, state: State, query: Query, stream: Stream) -> Ranking:
        """Rank as the base does."""
        self.check_features(state, query)
        return self.base.best(_own(state), self._query(_seen(state), query), stream)

    def _query(self, seen: Memory, query: Query) -> Query:
        columns = self.representation.apply(query.features, seen)
        columns.flags.writeable = False
        return query.with_features(columns)

    def learn(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> State:
        """Let the base learn from the columns, and the representation from the documents."""
        seen = _seen(state)
        made = with_knots(seen, impression.trace.get("knots"))
        own, inner = _own(state), _inner(impression)
        if same_knots(made, seen):
            after = self.base.learn(own, inner, feedback, stream)
        else:
            after = self._learn_there(own, inner, feedback, stream, made, seen)
        weights, memory = after.weights, after.memory
        known = self.representation.observe(seen, impression.query.features, state.step, stream)
        if not same_knots(known, seen):
            weights, memory = self._carried(after, seen, known, stream)
        return State(weights, after.step, after.updates, replaced(memory, "representation", known))

    def _learn_there(
        self, own: State, inner: Impression, feedback: Feedback, stream: Stream, made: Memory, seen: Memory
    ) -> State:
        """Learn with the knots of the list, and convert the change of the weights to the current knots.

        Of the memory of the base only what does not depend on columns is learned, such as what users of a query chose.
        """
        there = self._there(own, made, seen, stream)
        after = self.base.learn(there, inner, feedback, stream)
        weights = own.weights
        if after.weights is not there.weights:
            change = after.weights - there.weights
            change.flags.writeable = False  # as all weights: kernels are compiled for each kind of array
            weights = frozen(weights + self.representation.carry(change, made, seen))
        # What is remembered of queries is not of these columns; the rest of the memory is, so that of before stays.
        memory = completed(lasting(after.memory, self.base), own.memory)
        return State(weights, after.step, after.updates, memory)

    def _there(self, own: State, made: Memory, seen: Memory, stream: Stream) -> State:
        """Return the state of the base with the knots of the list."""
        weights, memory = self._carried(own, seen, made, stream.copy())
        return State(weights, own.step, own.updates, memory)

    def _carried(self, own: State, before: Memory, after: Memory, stream: Stream) -> tuple[Weights, Memory]:
        """Return the weights and the memory of the base for other knots."""
        carry = partial(self.representation.carry, before=before, after=after)
        weights = carry(own.weights)
        return weights, self.base.carry_memory(own.memory, weights.shape[0], carry, stream)

    def explain_step(self, state: State, impression: Impression, feedback: Feedback, stream: Stream) -> StepExplanation:
        """Return the components of the step; directions are in the columns of the list."""
        seen, own = _seen(state), _own(state)
        made = with_knots(seen, impression.trace.get("knots"))
        there = own if same_knots(made, seen) else self._there(own, made, seen, stream)
        step = self.base.explain_step(there, _inner(impression), feedback, stream.copy())
        after = self.learn(state, impression, feedback, stream.copy())
        return replace(step, before=state.weights, after=after.weights)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient of the base, for a list with the knots of this state; `learn` accepts any list."""
        if not same_knots(with_knots(_seen(state), impression.trace.get("knots")), _seen(state)):
            raise InvalidValue(
                "this list was made with other knots than those of the state, so its gradient is for other columns"
            )
        gradient, memory = self.base.gradient(_own(state), _inner(impression), feedback, stream)
        return gradient, replaced(memory, "representation", _seen(state))

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move as the base does."""
        weights, memory = self.base.update(_own(state), gradient)
        return weights, replaced(memory, "representation", _seen(state))


def _seen(state: State) -> Memory:
    """Return the memory of the representation."""
    seen: Memory = state.memory.get("representation", {})
    return seen


def _own(state: State) -> State:
    """Return the state of the base: without the memory of the representation."""
    if "representation" not in state.memory:
        return state
    memory = {name: own for name, own in state.memory.items() if name != "representation"}
    return State(state.weights, state.step, state.updates, memory)


def _traced(query: Query, inner: Impression, seen: Memory) -> Impression:
    """Return an impression of the query with the columns and knots of the representation in its trace."""
    knots = knots_of(seen)
    trace = {**inner.trace, "columns": inner.query.features}
    shown = query.with_boosts(inner.query.boosts)  # the base may have added them
    return Impression(shown, inner.ranking, trace if knots is None else {**trace, "knots": knots})


def _inner(impression: Impression) -> Impression:
    """Return an impression as the base made it."""
    if "columns" not in impression.trace:
        raise InvalidValue(
            "this impression was made without a representation, so a recipe that has one cannot learn from it"
        )
    query = impression.query.with_features(impression.trace["columns"])
    return Impression(query, impression.ranking, impression.trace)
