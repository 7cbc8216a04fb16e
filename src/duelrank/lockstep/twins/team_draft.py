"""Twin of `TeamDraft`: rankers take turns at adding their best remaining document."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax.numpy as jnp

from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import best_first, best_in_turn, n_agreed
from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Numbers, Query
from duelrank.multileaving import TeamDraft

__all__ = ["MultileaverTwin", "TeamDraftTwin", "Teams", "draft", "turns"]

Array = Any


class Teams(NamedTuple):
    """The ranker that owns each position, −1 for nobody, and one entry per ranker."""

    teams: Array
    rankers: Array


class MultileaverTwin(Twin, ABC):
    """The twin of a multileaver; ``order`` breaks ties, (documents,) for all rankers or a row for each."""

    @abstractmethod
    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Any]:
        """Return the list and the evidence for the credit."""

    @abstractmethod
    def assign_credit(self, numbers: Numbers, evidence: Any, query: Query, clicked: Clicked) -> Array:
        """Return the credit of each ranker; entry 0 is that of the current one."""


@twin(TeamDraft)
class TeamDraftTwin(MultileaverTwin):
    """Draws the turns of all rounds at once; then each position takes the best document that is left."""

    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Teams]:
        """Return the list, and the ranker that owns each position."""
        length = query.places.shape[0]
        ranking, teams = draft(scores, order, turns(scores.shape[0], length, draws), length)
        return ranking, Teams(teams, jnp.zeros(scores.shape[0]))

    def assign_credit(self, numbers: Numbers, evidence: Teams, query: Query, clicked: Clicked) -> Array:
        """Count each ranker's clicked documents."""
        owned = evidence.teams == jnp.arange(evidence.rankers.shape[0])[:, None]
        return jnp.sum(owned & clicked.clicks, axis=-1, dtype=jnp.float64)


def turns(n_rankers: int, length: int, draws: Draws) -> Array:
    """Return whose turn it is: rounds in which every ranker has one, each in a random order of its own."""
    rounds = -(-length // n_rankers)
    order = draws.order(Purpose.RANKERS, (rounds, n_rankers))
    return best_first(jnp.zeros(order.shape), order).reshape(-1)[:length]


def draft(scores: Array, order: Array, turn: Array, length: int) -> tuple[Array, Array]:
    """Return the list and the ranker that owns each position; −1 on the top that all rankers agree on."""
    orders = jnp.broadcast_to(order, scores.shape)
    top = best_first(scores[0], orders[0])[:length]
    common = n_agreed(scores, orders, top)
    position = jnp.arange(length, dtype=jnp.int32)
    team = turn[jnp.maximum(position - common, 0)]
    ranking = best_in_turn(scores[team], orders[team], top, common)
    return ranking, jnp.where(position < common, -1, team)
