"""Twin of `SampleOnlyScored`: team-draft lists, and points by each ranker's own order of what was shown."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.lockstep.draws import Draws
from duelrank.lockstep.ranking import shown_ranks
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.team_draft import MultileaverTwin, draft, turns
from duelrank.lockstep.values import Clicked, Numbers, Query
from duelrank.multileaving import SampleOnlyScored

__all__ = ["SampleOnlyScoredTwin"]

Array = Any


@twin(SampleOnlyScored)
class SampleOnlyScoredTwin(MultileaverTwin):
    """Only the order of the shown documents counts, so their scores alone are ranked."""

    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Array]:
        """Return a team-draft list, and the rank of each shown document among the shown ones, by each ranker."""
        length = query.places.shape[0]
        ranking, _ = draft(scores, order, turns(scores.shape[0], length, draws), length)
        orders = jnp.broadcast_to(order, scores.shape)
        shown, places = jnp.where(query.places, scores[:, ranking], -jnp.inf), orders[:, ranking]
        return ranking, shown_ranks(shown, places, shown, places)

    def assign_credit(self, numbers: Numbers, evidence: Array, query: Query, clicked: Clicked) -> Array:
        """Return Σ 1/r^τ over the clicks, r from 1 the rank among the shown documents."""
        points = (evidence + 1.0).astype(jnp.float64) ** -numbers["tau"]
        return jnp.sum(jnp.where(clicked.clicks, points, 0.0), axis=-1)
