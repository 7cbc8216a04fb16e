"""Twins of multileaving: lists and credit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from duelrank.core.registry import Part
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import best_first, best_in_turn, n_agreed, ranks_of, shown_ranks, soonest_in_turn
from duelrank.lockstep.twin import Array, Clicked, Numbers, Query, Twin, twin
from duelrank.multileaving import ContestedPairs, Probabilistic, SampleOnlyScored, TeamDraft


class Teams(NamedTuple):
    """The ranker that owns each position, −1 for none, and an array with one entry per ranker, for their number."""

    teams: Array
    rankers: Array


class MultileaverTwin(Twin, ABC):
    """The twin of a multileaver; ``order`` breaks ties, (documents,) for all rankers or one row for each."""

    @abstractmethod
    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Any]:
        """Return the list and the evidence that `assign_credit` needs."""

    def evidence(self, scores: Array, order: Array, query: Query, ranking: Array) -> Any:
        """Return the evidence for a list made elsewhere; None if it can assign credit only for its own lists."""
        return None

    @abstractmethod
    def assign_credit(self, numbers: Numbers, evidence: Any, query: Query, clicked: Clicked) -> Array:
        """Return the credit of each ranker; entry 0 is that of the current one."""


@twin(TeamDraft)
class TeamDraftTwin(MultileaverTwin):
    """Draws the turns of all rounds at once; then each position takes the best remaining document."""

    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Teams]:
        """Return the list, and the ranker that owns each position."""
        length = query.places.shape[0]
        ranking, teams = draft(scores, order, turns(scores.shape[0], length, draws), length)
        return ranking, Teams(teams, jnp.zeros(scores.shape[0]))

    def assign_credit(self, numbers: Numbers, evidence: Teams, query: Query, clicked: Clicked) -> Array:
        """Return the number of clicked documents of each ranker."""
        owned = evidence.teams == jnp.arange(evidence.rankers.shape[0])[:, None]
        return jnp.sum(owned & clicked.clicks, axis=-1, dtype=jnp.float64)


def turns(n_rankers: int, length: int, draws: Draws) -> Array:
    """Return the ranker of each turn: rounds in which every ranker has one turn, each in a random order."""
    rounds = -(-length // n_rankers)
    order = draws.order(Purpose.RANKERS, (rounds, n_rankers))
    return best_first(jnp.zeros(order.shape), order).reshape(-1)[:length]


def draft(scores: Array, order: Array, turn: Array, length: int) -> tuple[Array, Array]:
    """Return the list and the ranker that owns each position; −1 at the leading positions that all rankers agree on."""
    orders = jnp.broadcast_to(order, scores.shape)
    top = best_first(scores[0], orders[0])[:length]
    common = n_agreed(scores, orders, top)
    position = jnp.arange(length, dtype=jnp.int32)
    team = turn[jnp.maximum(position - common, 0)]
    ranking = best_in_turn(scores[team], orders[team], top, common)
    return ranking, jnp.where(position < common, -1, team)


@twin(Probabilistic)
class ProbabilisticTwin(MultileaverTwin):
    """Computes all ranks only for the rankers that place a document; credit needs only the ranks of shown documents."""

    ignored: ClassVar[tuple[str, ...]] = ("credit", "samples")

    @classmethod
    def refuses(cls, part: Part) -> str | None:
        """Refuse sampled credit: it draws thousands of assignments per impression and run."""
        assert isinstance(part, Probabilistic)
        exact = part.credit == "exact"
        return None if exact else "Probabilistic(credit='sampled') has no lockstep twin, only exact credit"

    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Array]:
        """Return the list, and the rank of each shown document by each ranker.

        The documents of a ranker have exponential waiting times with rates 1/r^τ, and the soonest one that is not yet shown is
        chosen: with new times for each position, this is a draw from the softmax over the remaining documents.
        """
        n_rankers, n_documents = scores.shape
        length, orders = query.places.shape[0], jnp.broadcast_to(order, scores.shape)
        chosen = draws.below(Purpose.RANKERS, n_rankers, (length,))
        ranks = ranks_of(scores[chosen], orders[chosen])
        waits = draws.log_exponential(Purpose.RACE, (length, n_documents))
        waits = waits + numbers["tau"].astype(draws.real) * jnp.log1p(ranks.astype(draws.real))
        ranking = soonest_in_turn(jnp.where(query.present, waits, jnp.inf))
        return ranking, self.evidence(scores, order, query, ranking)

    def evidence(self, scores: Array, order: Array, query: Query, ranking: Array) -> Array:
        """Return the rank of each shown document by each ranker."""
        orders = jnp.broadcast_to(order, scores.shape)
        return shown_ranks(scores, orders, scores[:, ranking], orders[:, ranking])

    def assign_credit(self, numbers: Numbers, evidence: Array, query: Query, clicked: Clicked) -> Array:
        """Return each candidate's expected preference over the current ranker."""
        placed = placements(evidence, query.places, query.size, query.present.shape[0], numbers["tau"])
        placed = jnp.where(clicked.clicks, placed, 0.0)
        return expected_preference(placed, placed[0])


def placements(ranks: Array, places: Array, size: Array, widest: int, tau: Array) -> Array:
    """Return P(ranker i placed the document | the list) for every position, (rankers, length).

    The mass of the remaining documents is summed from the end: subtraction would cancel for a steep softmax.
    """
    every = jnp.arange(widest)
    masses = jnp.where(every < size, (every + 1.0).astype(jnp.float64) ** -tau, 0.0)
    shown = jnp.any((ranks[:, :, None] == every) & places[:, None], axis=1)
    rest = jnp.sum(jnp.where(shown, 0.0, masses), axis=-1)
    mass = jnp.where(places, (ranks + 1.0).astype(jnp.float64) ** -tau, 0.0)
    shares = []
    for position in range(ranks.shape[1] - 1, -1, -1):
        rest = rest + mass[:, position]
        shares.append(jnp.where(rest > 0.0, mass[:, position] / jnp.where(rest > 0.0, rest, 1.0), 0.0))
    table = jnp.stack(shares[::-1], axis=1)
    total = jnp.sum(table, axis=0)
    return jnp.where(total > 0.0, table / jnp.where(total > 0.0, total, 1.0), 0.0)


def expected_preference(wins: Array, losses: Array) -> Array:
    """Return E[sign] of the sum over positions of independent steps, +1 or −1 with the given probabilities, else 0.

    The characteristic function of the sum is a product over positions, so its sign follows from a few frequencies, without a
    convolution. If wins equal losses, every factor is real and the result exactly 0.
    """
    length = wins.shape[-1]
    period = 2 * length + 1
    angles = 2.0 * np.pi * np.arange(1, length + 1) / period
    share = np.array([4.0 / period * math.fsum(np.sin(angle * np.arange(1, length + 1))) for angle in angles])
    real, imaginary = jnp.ones((*wins.shape[:-1], length)), jnp.zeros((*wins.shape[:-1], length))
    for position in range(length):
        win, loss = wins[..., position, None], losses[..., position, None]
        one = (1.0 - (win + loss)) + (win + loss) * np.cos(angles)
        other = (win - loss) * np.sin(angles)
        real, imaginary = real * one - imaginary * other, real * other + imaginary * one
    return jnp.sum(imaginary * share, axis=-1)


@twin(SampleOnlyScored)
class SampleOnlyScoredTwin(MultileaverTwin):
    """Ranks only the shown documents."""

    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Array]:
        """Return a team-draft list, and the rank of each shown document among the shown ones, by each ranker."""
        length = query.places.shape[0]
        ranking, _ = draft(scores, order, turns(scores.shape[0], length, draws), length)
        return ranking, self.evidence(scores, order, query, ranking)

    def evidence(self, scores: Array, order: Array, query: Query, ranking: Array) -> Array:
        """Return the rank of each shown document among the shown ones, by each ranker."""
        places = jnp.broadcast_to(order, scores.shape)[:, ranking]
        shown = jnp.where(query.places, scores[:, ranking], -jnp.inf)
        return shown_ranks(shown, places, shown, places)

    def assign_credit(self, numbers: Numbers, evidence: Array, query: Query, clicked: Clicked) -> Array:
        """Return Σ 1/r^τ over the clicks, r from 1 the rank among the shown documents."""
        points = (evidence + 1.0).astype(jnp.float64) ** -numbers["tau"]
        return jnp.sum(jnp.where(clicked.clicks, points, 0.0), axis=-1)


@twin(ContestedPairs)
class ContestedPairsTwin(SampleOnlyScoredTwin):
    """Makes the lists and evidence of `SampleOnlyScored`."""

    def assign_credit(self, numbers: Numbers, evidence: Array, query: Query, clicked: Clicked) -> Array:
        """Return Σ ρ over the pairs that a ranker has in the user's order; axes are ranker, better and worse position."""
        position = jnp.arange(evidence.shape[-1])
        seen = (position <= clicked.last) & query.places
        prefers = clicked.clicks[:, None] & (seen & ~clicked.clicks)[None, :]
        agree = evidence[:, :, None] < evidence[:, None, :]
        above = jnp.mean(agree, axis=0, dtype=jnp.float64)
        other_way = jnp.where(position[:, None] < position[None, :], above.T, above)
        return jnp.sum(jnp.where(agree & prefers, other_way, 0.0), axis=(-2, -1))
