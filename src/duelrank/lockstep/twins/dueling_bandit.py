"""Twin of the dueling bandits: DBGD, MGD, NSGD and others are choices of the same four parts."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import DBGD, DPDBGD, MGD, NSGD, WMGD
from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import linear_scores, scores_of
from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.twins.uniform_sphere import unit_rows
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State

__all__ = ["AlgorithmTwin", "DuelingBanditTwin"]

Array = Any


class AlgorithmTwin(Twin):
    """The twin of an algorithm: as `Algorithm`, with the numbers of the recipe as an argument."""

    codes: ClassVar[dict[str, dict[str, float]]] = {"initial": {"zero": 0.0, "random": 1.0}}
    #: Scores of documents, from what `scored` returns; a function of a module, so that all that share it share a program.
    scores: Any = staticmethod(linear_scores)

    def columns(self, features: NDArray[np.bool_], impressions: int) -> NDArray[np.bool_]:
        """Return flags of the columns that a run with these features may come to."""
        return features

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Return the state before the first impression."""
        drawn = unit_rows(draws.normal(Purpose.START, (1, columns.shape[0])) * columns)[0]
        weights = jnp.where(numbers.get("initial", 0.0) > 0.0, drawn, 0.0).astype(draws.real)
        return State(weights, jnp.int32(0), jnp.int32(0), self.memory(numbers, columns.shape[0], length, draws.real))

    def memory(self, numbers: Numbers, n_features: int, length: int, real: Any) -> Memory:
        """Return the memory before the first impression."""
        raise NotImplementedError

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Make the list."""
        raise NotImplementedError

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the gradient and the memory; both must be right also where there was no click."""
        raise NotImplementedError

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Return weights and memory after a step along a gradient that is not zero."""
        raise NotImplementedError

    def learn(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> State:
        """Return the state after the feedback on a list: gradient, then update, then memory."""
        gradient, memory = self.gradient(numbers, state, query, shown, clicked, draws)
        won = jnp.any(gradient != 0.0)
        weights, after = self.update(numbers, state._replace(memory=memory), gradient)

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(won, new, old)

        memory = jax.tree.map(keep, after, memory)
        return State(keep(weights, state.weights), state.step + 1, state.updates + won, memory)

    def distance(self, before: State, after: State, draws: Draws) -> Array:
        """Return the length of a move."""
        return jnp.sqrt(jnp.sum((after.weights - before.weights) ** 2))

    def kept(self, state: State) -> Any:
        """Return what a checkpoint needs to keep."""
        return state.weights

    def scored(self, numbers: Numbers, kept: Any) -> Any:
        """Return what `scores` needs of all checkpoints of all runs, (checkpoints, runs, …)."""
        return kept

    def trajectory(self, kept: Any) -> Array:
        """Return the weights at all checkpoints of all runs."""
        return kept


class BanditMemory(NamedTuple):
    """What the parts remember."""

    exploration: Memory
    inference: Memory
    step: Memory


class Duel(NamedTuple):
    """How a list was made."""

    directions: Array
    evidence: Any


@twin(DuelingBandit, DBGD, MGD, NSGD, WMGD, DPDBGD)
class DuelingBanditTwin(AlgorithmTwin):
    """Scores all documents with all rankers in one product."""

    shaping: ClassVar[tuple[str, ...]] = ("ties",)
    exploration: Any
    multileaver: Any
    inference: Any
    step: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of a dueling bandit, whatever the name of its class."""
        return ("DuelingBandit", *super().shape[1:])

    def memory(self, numbers: Numbers, n_features: int, length: int, real: Any) -> BanditMemory:
        """Return the memories of the parts."""
        explored, stepped = self.exploration.start(n_features, real), self.step.start(n_features, real)
        return BanditMemory(explored, self.inference.start(length), stepped)

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Draw directions, rank with each candidate, and merge."""
        own = state._replace(memory=state.memory.exploration)
        directions = self.exploration.directions(numbers["exploration"], own, query, draws)
        delta = numbers["delta"].astype(draws.real)
        rankers = jnp.concatenate((state.weights[None], state.weights + delta * directions))
        scores = scores_of(rankers, query.features, query.present)
        shape = scores.shape if self.shaped("ties") == "separate" else scores.shape[1:]
        order = draws.order(Purpose.TIES, shape)
        ranking, evidence = self.multileaver.leave(numbers["multileaver"], scores, order, query, draws)
        return Shown(ranking, Duel(directions, evidence))

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the direction towards the winners; without clicks there is no winner, and nothing to remember."""
        memory, directions = state.memory, shown.trace.directions
        credit = self.multileaver.assign_credit(numbers["multileaver"], shown.trace.evidence, query, clicked)
        explored = self.exploration.observe(
            numbers["exploration"], state._replace(memory=memory.exploration), shown, directions, credit, clicked
        )
        own = state._replace(memory=memory.inference)
        gradient, inferred = self.inference.infer(
            numbers["inference"], numbers["delta"], own, query, shown, directions, credit, clicked, draws
        )
        return gradient, memory._replace(exploration=explored, inference=inferred)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        own = state._replace(memory=state.memory.step)
        weights, stepped = self.step.move(numbers["step"], own, gradient)
        return weights, state.memory._replace(step=stepped)
