"""Slow twins of `duelrank.kernels.pairwise_preference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.random import below

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def leave(rankings: Ints, length: int, stream: Any) -> tuple[Ints, Ints, Ints]:
    """Draw each position from the union of the rankers' tops that reach as far down."""
    ranking: list[int] = []
    choices: list[int] = []
    pool: list[int] = []
    for position in range(length):
        pool += [d for d in dict.fromkeys(rankings[:, position].tolist()) if d >= 0 and d not in pool + ranking]
        chosen = below(stream, len(pool))
        choices.append(len(pool))
        ranking.append(pool[chosen])
        pool[chosen] = pool[-1]  # the last one takes the free place
        pool.pop()
    earliest = [min(order.tolist().index(document) for order in rankings if document in order) for document in ranking]
    return np.array(ranking, np.int64), np.array(earliest, np.int64), np.array(choices, np.int64)


def pair_weights(earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """The lead in gain, over the probability that neither was placed before both could be, for each pair of different gains."""
    weights = np.zeros((gains.size, gains.size))
    clicked = np.flatnonzero(gains)
    for better in clicked:
        for worse in np.flatnonzero(gains[: clicked[-1] + 2] < gains[better]):
            low, high = sorted((earliest[better], earliest[worse]))
            if better >= high and worse >= high:
                weights[better, worse] = (gains[better] - gains[worse]) / np.prod(1.0 - 1.0 / choices[low:high])
    return weights


def credit(ranks: Ints, earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Add up the weights of all preferences, with the sign of how each ranker orders the two."""
    weights = pair_weights(earliest, choices, gains)
    return np.array([np.sum(weights * np.where(row[:, np.newaxis] < row[np.newaxis, :], 1.0, -1.0)) for row in ranks])
