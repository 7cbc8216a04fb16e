"""Twin of `Projected`: wraps the twin of an algorithm and projects its gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

from duelrank.algorithms import Projected, Represented
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.dueling_bandit import AlgorithmTwin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State

__all__ = ["ProjectedTwin"]

Array = Any


class ProjectedMemory(NamedTuple):
    """What the base and the projection remember."""

    base: Memory
    projection: Memory


@twin(Projected)
class ProjectedTwin(AlgorithmTwin):
    """Nothing in the wrapped twin knows."""

    base: Any
    projection: Any

    @classmethod
    def refuses(cls, part: Any) -> str | None:
        """Refuse a base with a representation, which would have to learn behind this one."""
        return "a representation within Projected has no lockstep twin" if isinstance(part.base, Represented) else None

    def start(self, numbers: Numbers, columns: Array, length: int, draws: Draws) -> State:
        """Start as the base does."""
        begun: State = self.base.start(numbers["base"], columns, length, draws)
        projected = self.projection.start(numbers["projection"], columns.shape[0])
        return begun._replace(memory=ProjectedMemory(begun.memory, projected))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Explore as the base does."""
        shown: Shown = self.base.explore(numbers["base"], _base(state), query, draws)
        return shown

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the base's gradient, projected."""
        gradient, learned = self.base.gradient(numbers["base"], _base(state), query, shown, clicked, draws)
        own = state.memory.projection
        gradient, projected = self.projection.project(numbers["projection"], gradient, own, query, shown, clicked)
        return gradient, ProjectedMemory(learned, projected)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move as the base does."""
        weights, memory = self.base.update(numbers["base"], _base(state), gradient)
        return weights, state.memory._replace(base=memory)


def _base(state: State) -> State:
    return state._replace(memory=state.memory.base)
