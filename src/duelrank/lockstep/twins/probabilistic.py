"""Twin of `Probabilistic`: lists drawn from softmaxes over ranks, and the exact expected preference of each candidate."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import ranks_of, shown_ranks, soonest_in_turn
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.team_draft import MultileaverTwin
from duelrank.lockstep.values import Clicked, Numbers, Query
from duelrank.multileaving import Probabilistic

__all__ = ["ProbabilisticTwin", "expected_preference", "placements"]

Array = Any


@twin(Probabilistic)
class ProbabilisticTwin(MultileaverTwin):
    """Full ranks are counted for the rankers that place a document only; credit needs the ranks of what was shown."""

    ignored: ClassVar[tuple[str, ...]] = ("credit", "samples")

    @classmethod
    def refuses(cls, part: Any) -> str | None:
        """Refuse sampled credit: thousands of assignments per impression and run."""
        return (
            None
            if part.credit == "exact"
            else "Probabilistic(credit='sampled') has no lockstep twin, only exact credit"
        )

    def leave(self, numbers: Numbers, scores: Array, order: Array, query: Query, draws: Draws) -> tuple[Array, Array]:
        """Return the list, and the rank of each shown document by each ranker.

        The documents of a ranker wait for exponential times of rates 1/r^τ, and the first one that is not shown yet comes: each
        position has fresh times, so this is a draw from the softmax over what is left.
        """
        n_rankers, n_documents = scores.shape
        length, orders = query.places.shape[0], jnp.broadcast_to(order, scores.shape)
        chosen = draws.below(Purpose.RANKERS, n_rankers, (length,))
        ranks = ranks_of(scores[chosen], orders[chosen])
        waits = draws.log_exponential(Purpose.RACE, (length, n_documents))
        waits = waits + numbers["tau"].astype(draws.real) * jnp.log1p(ranks.astype(draws.real))
        ranking = soonest_in_turn(jnp.where(query.present, waits, jnp.inf))
        return ranking, shown_ranks(scores, orders, scores[:, ranking], orders[:, ranking])

    def assign_credit(self, numbers: Numbers, evidence: Array, query: Query, clicked: Clicked) -> Array:
        """Return each candidate's expected preference over the current ranker."""
        placed = placements(evidence, query.places, query.size, query.present.shape[0], numbers["tau"])
        placed = jnp.where(clicked.clicks, placed, 0.0)
        return expected_preference(placed, placed[0])


def placements(ranks: Array, places: Array, size: Array, widest: int, tau: Array) -> Array:
    """Return P(ranker i placed the document | the list) for every position, (rankers, length).

    What was left to draw from is added up from the end: subtracting from the whole would cancel for a steep softmax.
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

    The sum has a characteristic function that is a product over positions, so its sign follows from a few frequencies, without
    a convolution. Where wins equal losses every factor is real and the result exactly 0.
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
