"""Twin of `Represented`: wraps the twin of an algorithm and shows it columns instead of features."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm, Represented
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.dueling_bandit import AlgorithmTwin
from duelrank.lockstep.twins.knots import carried, is_due
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State
from duelrank.representation import Chain, Raw, Representation

__all__ = ["RepresentedTwin", "prepared"]

Array = Any


def prepared(algorithm: Algorithm) -> Representation:
    """Return the part of a recipe's representation that learns nothing: the table of documents is made with it."""
    if not isinstance(algorithm, Represented):
        return Raw()
    found = algorithm.representation
    if found.learns:
        return found.first if isinstance(found, Chain) else Raw()
    return found


class RepresentedMemory(NamedTuple):
    """What the base remembers, and what the representation has learned of the features."""

    base: Memory
    seen: Memory


@twin(Represented)
class RepresentedTwin(AlgorithmTwin):
    """A simulated run learns from each list at once, so a list is always learned from with the knots that it was made with.

    There is room for all columns that the run comes to; those that are not there yet are zero and are not explored.
    """

    base: Any
    representation: Any

    @classmethod
    def refuses(cls, part: Any) -> str | None:
        """Refuse knots on an axis without known ends, where the number of pieces may differ from run to run."""
        if part.representation.learns and not prepared(part).within_unit:
            return (
                "knots for values that are not known to be from 0 to 1 have no lockstep twin; put query-scaled before"
            )
        return None

    @property
    def view(self) -> Any:
        """The twin of the representation, without what is in the table already."""
        return getattr(self.representation, "then", self.representation)

    @property
    def scores(self) -> Any:
        """Scores of documents, from what `scored` returns."""
        return self.view.scores

    def columns(self, features: NDArray[np.bool_], impressions: int) -> NDArray[np.bool_]:
        """Return the flags of the features, once for each column that a feature comes to."""
        return np.tile(features, (int(self.view.each(impressions)), 1))

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Start as the base does, with the columns that the representation starts with."""
        begun: State = self.base.start(numbers["base"], self._existing(columns, 0), length, draws)
        return begun._replace(memory=RepresentedMemory(begun.memory, self.view.start(columns, draws.real)))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Explore as the base does."""
        shown: Shown = self.base.explore(
            numbers["base"], _own(state), self._seen(numbers, state, query, draws.impression), draws
        )
        return shown

    def learn(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> State:
        """Let the base learn from what it saw, and the representation from the documents."""
        own = self._seen(numbers, state, query, draws.impression)
        after: State = self.base.learn(numbers["base"], _own(state), own, shown, clicked, draws)
        if not self.view.learns:
            return after._replace(memory=RepresentedMemory(after.memory, ()))
        seen = self.view.observe(state.memory.seen, query, draws)
        after = after._replace(memory=RepresentedMemory(after.memory, seen))
        # All runs are at the same impression, so that between checks nothing is computed for any.
        return lax.cond(  # type: ignore[no-any-return]
            is_due(draws.impression + 1), lambda: self._checked(numbers, after, query, draws), lambda: after
        )

    def distance(self, before: State, after: State, draws: Draws) -> Array:
        """Return the length of a move; where there are other columns than before, there is none."""
        same = self.view.each(draws.impression + 1) == self.view.each(draws.impression)
        return jnp.where(same, super().distance(before, after, draws), 0.0)

    def kept(self, state: State) -> Any:
        """Return what a checkpoint needs to keep."""
        return self.view.kept(state.weights, state.memory.seen)

    def scored(self, numbers: Numbers, kept: Any) -> Any:
        """Return what `scores` needs."""
        return self.view.scored(numbers["representation"], kept)

    def trajectory(self, kept: Any) -> Array:
        """Return the weights of the last columns that make the curves of each checkpoint."""
        return self.view.trajectory(kept)

    def _checked(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> State:
        """Look whether the knots should move; if they do, what parts remember is of other columns."""
        base, seen = state.memory
        lists, length = draws.impression + 1, query.places.shape[0]
        after, moves = self.view.checked(seen, query.table, lists)
        weights = carried(state.weights, seen.knots, after.knots)
        fresh = self.base.start(numbers["base"], self._existing(query.columns, lists), length, draws).memory

        def pick(new: Array, old: Array) -> Array:
            return jnp.where(moves, new, old)

        memory = RepresentedMemory(jax.tree.map(pick, fresh, base), jax.tree.map(pick, after, seen))
        return state._replace(weights=pick(weights, state.weights), memory=memory)

    def _seen(self, numbers: Numbers, state: State, query: Query, lists: Array) -> Query:
        """Return the query as the base sees it."""
        existing = self._existing(query.columns, lists)

        def represent(rows: Array) -> Array:
            columns = self.view.apply(numbers["representation"], rows, state.memory.seen)
            return columns.reshape(*rows.shape[:-1], -1) * existing.astype(rows.dtype)

        return query._replace(features=represent(query.features), columns=existing, represent=represent)

    def _existing(self, columns: Array, lists: Any) -> Array:
        """Return flags of the columns that are there after so many lists, as the weights are: (columns,)."""
        there = jnp.arange(columns.shape[0]) < self.view.each(lists)
        return (columns & there[:, None]).reshape(-1)


def _own(state: State) -> State:
    return state._replace(memory=state.memory.base)
