"""Reference versions of `duelrank.kernels.ranking`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.random import permutation


def scores(rankers: Floats, features: Floats) -> Floats:
    """Score every document with every ranker."""
    return np.asarray(rankers @ features.T)


def linear_scores(weights: Floats, features: Floats) -> Floats:
    """Score every document with one ranker."""
    return np.asarray(features @ weights)


def best_first(keys: Floats) -> Ints:
    """Return the indices of the keys from the largest down, stable."""
    return np.argsort(-keys, kind="stable")


def sorted_rows(table: Floats, shuffled: Ints) -> Ints:
    """Rank the documents by each row of scores; ties as shuffled."""
    return np.array([shuffled[np.argsort(-row[shuffled], kind="stable")] for row in table])


def add_boosts(table: Floats, boosts: Floats) -> None:
    """Add the boosts to each row, in place, if there are any."""
    if len(boosts):
        table += boosts


def _boosted(weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats) -> Floats:
    table = scores(np.vstack([weights, weights + delta * directions]), features)
    add_boosts(table, boosts)
    return table


def rankings(weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats, stream: Any) -> Ints:
    """Rank with the current weights and with each candidate."""
    table = _boosted(weights, directions, delta, features, boosts)
    return sorted_rows(table, permutation(stream, features.shape[0]))


def separate_rankings(
    weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats, stream: Any
) -> Ints:
    """Rank with the current weights and with each candidate, each with its own order of ties."""
    table = _boosted(weights, directions, delta, features, boosts)
    return np.array([sorted_rows(row[np.newaxis], permutation(stream, row.size))[0] for row in table])


def compared_rankings(
    weights: Floats, directions: Floats, delta: float, features: Floats, boosts: Floats, separate: bool, stream: Any
) -> tuple[Ints, Ints]:
    """Rank twice, from the same place of the stream."""
    rank, parts, again = (
        separate_rankings if separate else rankings,
        (weights, directions, delta, features),
        stream.copy(),
    )
    return rank(*parts, boosts, stream), rank(*parts, np.empty(0), again)


def ranked_labels(weights: Floats, features: Floats, labels: Any, offsets: Ints, stream: Any) -> Any:
    """Return the labels of all documents in ranked order, query after query."""
    lists = []
    for start, stop in pairwise(offsets):
        order = sorted_rows(scores(weights[None, :], features[start:stop]), permutation(stream, stop - start))[0]
        lists.append(labels[start:stop][order])
    return np.concatenate(lists)
