"""Twin of `OppositePair`: one direction and its opposite."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.exploration import OppositePair
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.uniform_sphere import ExplorationTwin, unit_rows
from duelrank.lockstep.values import Numbers, Query, State

__all__ = ["OppositePairTwin"]


@twin(OppositePair)
class OppositePairTwin(ExplorationTwin):
    """Draws u; the rows are u and −u."""

    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Any:
        """Draw u, and return it and −u."""
        drawn = unit_rows(draws.normal(Purpose.DIRECTIONS, (1, query.columns.shape[0])) * query.columns)
        return jnp.concatenate((drawn, -drawn))
