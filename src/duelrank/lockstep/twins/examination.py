"""Twins of the examination models that say how deep a user has read: `LastClick`, `WholeList`, `Observed`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Numbers, Query
from duelrank.projection import LastClick, Observed, WholeList

__all__ = ["LastClickTwin", "ObservedTwin", "WholeListTwin"]


@twin(LastClick)
class LastClickTwin(Twin):
    """Down to the lowest click and some positions more; nothing without a click."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Any:
        """Return how many positions were examined; it may be beyond the end of the list."""
        return jnp.where(clicked.last > 0, clicked.last + numbers["beyond"].astype(jnp.int32), 0)


@twin(WholeList)
class WholeListTwin(Twin):
    """All positions."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Any:
        """Return the length of the list."""
        return query.places.shape[0]


@twin(Observed)
class ObservedTwin(Twin):
    """As many as the simulated user has seen."""

    def depth(self, numbers: Numbers, query: Query, clicked: Clicked) -> Any:
        """Return the number of examined positions."""
        return clicked.examined
