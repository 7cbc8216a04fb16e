"""Twin of `UniformSphere`: directions drawn uniformly from the unit sphere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax.numpy as jnp

from duelrank.exploration import UniformSphere
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State

__all__ = ["ExplorationTwin", "UniformSphereTwin", "unit_rows"]

Array = Any


class ExplorationTwin(Twin, ABC):
    """The twin of an exploration that remembers nothing."""

    def start(self, n_features: int, real: Any) -> Memory:
        """Return the memory before the first impression."""
        return ()

    @abstractmethod
    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Array:
        """Return the candidate directions, one per row."""

    def observe(
        self, numbers: Numbers, state: State, shown: Shown, directions: Array, credit: Array, clicked: Clicked
    ) -> Memory:
        """Return the memory after a comparison."""
        return state.memory


@twin(UniformSphere)
class UniformSphereTwin(ExplorationTwin):
    """Draws normal numbers, scaled to length 1; features that the data set does not have stay 0."""

    shaping: ClassVar[tuple[str, ...]] = ("n_candidates",)

    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Array:
        """Draw n_candidates unit vectors."""
        shape = (self.shaped("n_candidates"), query.columns.shape[0])
        return unit_rows(draws.normal(Purpose.DIRECTIONS, shape) * query.columns)


def unit_rows(rows: Array) -> Array:
    """Scale each row to length 1; a row of zeros stays."""
    lengths = jnp.sqrt(jnp.sum(rows * rows, axis=-1, keepdims=True))
    return rows / jnp.where(lengths > 0.0, lengths, 1.0)
