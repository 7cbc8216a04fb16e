"""Twins of the examination models that say how deep a user has read: `LastClick`, `WholeList`, `Observed`."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown
from duelrank.projection import LastClick, Observed, WholeList

__all__ = ["ExaminationTwin", "LastClickTwin", "ObservedTwin", "WholeListTwin"]

Array = Any


class ExaminationTwin(Twin):
    """The twin of an examination; those that give a depth remember nothing."""

    #: Whether there are weights other than 0 and 1.
    graded: ClassVar[bool] = False
    #: Whether no position weighs more than one above it.
    from_top: ClassVar[bool] = True

    def start(self, numbers: Numbers, n_features: int) -> Memory:
        """Return the memory before the first impression."""
        return ()

    def examine(
        self, numbers: Numbers, memory: Memory, query: Query, shown: Shown, clicked: Clicked
    ) -> tuple[Array, Memory]:
        """Return the weight of each position, by the memory from before this list, and the memory after it."""
        seen = (jnp.arange(query.places.shape[0]) < self.depth(numbers, query, clicked)) & query.places
        return jnp.where(seen, 1.0, 0.0), memory

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return how many positions were examined; it may be beyond the end of the list."""
        raise NotImplementedError


@twin(LastClick)
class LastClickTwin(ExaminationTwin):
    """Down to the lowest click and some positions more; nothing without a click."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the lowest click and what is beyond."""
        return jnp.where(clicked.last > 0, clicked.last + numbers["beyond"].astype(jnp.int32), 0)


@twin(WholeList)
class WholeListTwin(ExaminationTwin):
    """All positions."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the length of the list."""
        return query.places.shape[0]


@twin(Observed)
class ObservedTwin(ExaminationTwin):
    """As many as the simulated user has seen."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Array:
        """Return the number of examined positions."""
        return clicked.examined
