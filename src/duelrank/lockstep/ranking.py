"""Ranks documents: all of them by sorting, a few of them by counting the better ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax.numpy as jnp
from jax import lax

from duelrank.lockstep.twin import Array, Query

#: Returns the scores of all documents, (rows, documents), from rows of weights or curves, and the features.
Scores: TypeAlias = Callable[[Any, Array], Array]


def scores_of(rankers: Array, query: Query) -> Array:
    """Return the score of each document by each ranker, with its boost, (rankers, documents); −inf if there is no document."""
    return jnp.where(query.present, query.boosted(linear_scores(rankers, query.features)), -jnp.inf)


def linear_scores(weights: Array, features: Array) -> Array:
    """Return the score of each document by each row of weights, (rows, documents)."""
    return jnp.matmul(weights, features.T, precision="highest")


def best_first(scores: Array, order: Array) -> Array:
    """Return the documents by each row of scores, best first; ties by ``order``.

    Missing documents, with a score of −inf, come last.
    """
    numbers = lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1)
    ranked: Array = lax.sort((-scores, jnp.broadcast_to(order, scores.shape), numbers), num_keys=2)[2]
    return ranked


def ranks_of(scores: Array, order: Array) -> Array:
    """Return the rank, from 0, of each document by each row of scores, as `best_first` orders them."""
    numbers = lax.broadcasted_iota(jnp.int32, scores.shape, scores.ndim - 1)
    ranks: Array = lax.sort((best_first(scores, order), numbers), num_keys=1)[1]
    return ranks


def shown_ranks(scores: Array, order: Array, shown: Array, shown_order: Array) -> Array:
    """Return the rank of a few documents among all documents, from their scores and their places in the order.

    It compares each of the few with all, which is faster than sorting for about ten of them.
    """
    mine, place = shown[..., :, None], jnp.broadcast_to(shown_order, shown.shape)[..., :, None]
    theirs, their_place = scores[..., None, :], jnp.broadcast_to(order, scores.shape)[..., None, :]
    return jnp.sum(_is_better(theirs, their_place, mine, place), axis=-1, dtype=jnp.int32)


def n_agreed(scores: Array, order: Array, top: Array) -> Array:
    """Return the number of leading documents that all rankers agree on; ``top`` has the leading documents of one ranker.

    A document of the top is in its place if it is better than the best of all later ones.
    """
    left = jnp.all(jnp.arange(scores.shape[1])[:, None] != top, axis=1)
    score = jnp.max(jnp.where(left, scores, -jnp.inf), axis=1)
    place = jnp.min(jnp.where(left & (scores == score[:, None]), order, jnp.iinfo(order.dtype).max), axis=1)
    agreed = jnp.int32(0)
    for document in top[::-1]:
        first = _is_better(scores[:, document], order[:, document], score, place)
        agreed = jnp.where(jnp.all(first), agreed + 1, 0)
        score, place = jnp.where(first, scores[:, document], score), jnp.where(first, order[:, document], place)
    return agreed


def best_in_turn(scores: Array, order: Array, known: Array, n_known: Array) -> Array:
    """Return one document per row of scores, from the first row to the last: the best that no earlier row has taken.

    Parameters
    ----------
    scores, order
        (length, documents).
    known, n_known
        The documents of the first rows, and their number, if these are known already.
    """
    numbers = jnp.arange(scores.shape[1], dtype=jnp.int32)
    taken = jnp.zeros(scores.shape[1], bool)
    chosen = []
    for row in range(scores.shape[0]):
        left = jnp.where(taken, -jnp.inf, scores[row])
        ties = (left == jnp.max(left)) & ~taken
        best = jnp.argmin(jnp.where(ties, order[row], jnp.iinfo(order.dtype).max)).astype(jnp.int32)
        chosen.append(jnp.where(row < n_known, known[row], best))
        taken = taken | (numbers == chosen[-1])
    return jnp.stack(chosen)


def soonest_in_turn(waits: Array) -> Array:
    """Return one document per row of waits, from the first row to the last: the soonest that no earlier row has taken.

    Parameters
    ----------
    waits
        (length, documents); inf if there is no document.
    """
    numbers = jnp.arange(waits.shape[1], dtype=jnp.int32)
    taken = jnp.zeros(waits.shape[1], bool)
    chosen = []
    for row in waits:
        chosen.append(jnp.argmin(jnp.where(taken, jnp.inf, row)).astype(jnp.int32))
        taken = taken | (numbers == chosen[-1])
    return jnp.stack(chosen)


def _is_better(score: Array, place: Array, other: Array, other_place: Array) -> Array:
    return (score > other) | ((score == other) & (place < other_place))
