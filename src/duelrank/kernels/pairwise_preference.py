"""Pairwise preference multileaving: preferences between documents, where both orders were equally likely to be shown.

Reference: Oosterhuis and de Rijke (CIKM 2017).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import below

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def leave(rankings: Ints, length: int, stream: NDArray[np.uint64]) -> tuple[Ints, Ints, Ints]:
    """Fill position p, from 0, uniformly from the documents that some ranker has in its top p + 1 and that are not yet shown.

    Returns the list, the earliest position that each shown document could have had, and how many documents there were to choose
    from at each position.
    """
    n_rankers, n_documents = rankings.shape
    ranking, choices = np.empty(length, np.int64), np.empty(length, np.int64)
    earliest = np.full(n_documents, -1)
    pool = np.empty(n_documents, np.int64)
    size = 0
    for position in range(length):
        for i in range(n_rankers):
            document = rankings[i, position]
            if document >= 0 and earliest[document] < 0:
                earliest[document] = position
                pool[size] = document
                size += 1
        chosen = below(stream, size)
        choices[position] = size
        ranking[position] = pool[chosen]
        size -= 1
        pool[chosen] = pool[size]
    return ranking, earliest[ranking], choices


@kernel
def pair_weights(earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Weight of each preference (better, worse position): lead in gain / P(both orders could come), and 0 where none is inferred.

    A document is preferred to those of less gain above the lowest click and to the one right below it, and the pair counts
    where it stands no higher than the position from which both could have been chosen: from there on they change places with equal
    probability. That they get there means that the one which could be chosen earlier was not: at each position s before, with
    probability 1 − 1/choices(s).
    """
    length = gains.shape[0]
    weights = np.zeros((length, length))
    considered = 0
    for position in range(length):
        if gains[position] > 0.0:
            considered = min(position + 2, length)
    for better in range(considered):
        for worse in range(considered):
            low, high = min(earliest[better], earliest[worse]), max(earliest[better], earliest[worse])
            if gains[better] > gains[worse] and min(better, worse) >= high:
                chance = 1.0
                for position in range(low, high):
                    chance *= 1.0 - 1.0 / choices[position]
                weights[better, worse] = (gains[better] - gains[worse]) / chance
    return weights


@kernel
def credit(ranks: Ints, earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Σ of the weights of the preferences that a ranker agrees with, less all others.

    A ranker that did not return the clicked document does not agree, whether or not it returned the other one.
    """
    n_rankers, length = ranks.shape
    weights = pair_weights(earliest, choices, gains)
    sums = np.zeros(n_rankers)
    for i in range(n_rankers):
        for better in range(length):
            for worse in range(length):
                sums[i] += weights[better, worse] * (1.0 if ranks[i, better] < ranks[i, worse] else -1.0)
    return sums
