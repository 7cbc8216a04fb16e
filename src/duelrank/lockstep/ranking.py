"""Ranks by counting: how many documents stand before one. On a wide device that beats sorting."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

__all__ = ["at_ranks", "drawn_in_turn", "linear_scores", "ranks_of", "scores_of", "shown_ranks"]

Array = Any


def scores_of(rankers: Array, features: Array, present: Array) -> Array:
    """Return the score of each document by each ranker, (rankers, documents); −inf where there is no document."""
    return jnp.where(present, linear_scores(rankers, features), -jnp.inf)


def linear_scores(weights: Array, features: Array) -> Array:
    """Return the score of each document by each row of weights, (rows, documents)."""
    return jnp.matmul(weights, features.T, precision="highest")


def ranks_of(scores: Array, order: Array) -> Array:
    """Return the rank, from 0, of each document by each row of scores; of equal ones the first by ``order`` is better.

    Documents that are not there, with a score of −inf, come last.
    """
    return shown_ranks(scores, order, scores, order)


def shown_ranks(scores: Array, order: Array, shown: Array, shown_order: Array) -> Array:
    """Return the rank of some documents, with their scores and their place in the order, among all documents."""
    mine, place = shown[..., :, None], jnp.broadcast_to(shown_order, shown.shape)[..., :, None]
    theirs, their_place = scores[..., None, :], jnp.broadcast_to(order, scores.shape)[..., None, :]
    before = (theirs > mine) | ((theirs == mine) & (their_place < place))
    return jnp.sum(before, axis=-1, dtype=jnp.int32)


def at_ranks(ranks: Array, length: int) -> Array:
    """Return the items at the ranks 0 to length − 1, from the rank of each item."""
    found = ranks[..., None, :] == jnp.arange(length)[:, None]
    return jnp.sum(jnp.where(found, jnp.arange(ranks.shape[-1], dtype=jnp.int32), 0), axis=-1, dtype=jnp.int32)


def drawn_in_turn(keys: Array, known: Array, n_known: Array) -> Array:
    """Return one document per row of keys, from the first row to the last: the smallest that no row before has taken.

    Parameters
    ----------
    keys
        (length, documents); inf, or the largest number, where there is no document.
    known, n_known
        The documents of the first rows, where these are known already.
    """
    numbers = jnp.arange(keys.shape[1], dtype=jnp.int32)
    taken = jnp.zeros(keys.shape[1], bool)
    worst = jnp.inf if jnp.issubdtype(keys.dtype, jnp.floating) else jnp.iinfo(keys.dtype).max
    chosen = []
    for row in range(keys.shape[0]):
        best = jnp.argmin(jnp.where(taken, worst, keys[row])).astype(jnp.int32)
        chosen.append(jnp.where(row < n_known, known[row], best))
        taken = taken | (numbers == chosen[-1])
    return jnp.stack(chosen)
