"""What several ways of merging rankings share: the ranks of what was shown, and lists that keep the rankers' prefixes.

A ranker may return some of the documents only: its row then ends in −1. All documents are returned by some ranker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import below

Ints = NDArray[np.int64]

MISSING = 1 << 60  # the rank of a document that a ranker did not return: behind all that it did return


@kernel
def returned(rankings: Ints) -> Ints:
    """How many documents each ranker returned."""
    counts = np.full(rankings.shape[0], rankings.shape[1])
    for i in range(rankings.shape[0]):
        while counts[i] > 0 and rankings[i, counts[i] - 1] < 0:
            counts[i] -= 1
    return counts


@kernel
def shown_ranks(rankings: Ints, ranking: Ints) -> Ints:
    """Rank, from 0, of each shown document in each ranking, MISSING where it is not: (n_rankers, length)."""
    n_rankers, n_documents = rankings.shape
    position = np.full(n_documents, -1)
    for p in range(ranking.shape[0]):
        position[ranking[p]] = p
    ranks = np.full((n_rankers, ranking.shape[0]), MISSING)
    for i in range(n_rankers):
        for r in range(n_documents):
            if rankings[i, r] < 0:
                break
            if position[rankings[i, r]] >= 0:
                ranks[i, position[rankings[i, r]]] = r
    return ranks


@kernel
def next_new(order: Ints, start: int, shown: NDArray[np.bool_]) -> int:
    """The first rank, from the start on, of a document that is not yet shown; −1 where the ranker has none left."""
    for r in range(start, order.shape[0]):
        if order[r] < 0:
            break
        if not shown[order[r]]:
            return r
    return -1


@kernel
def draw_lists(rankings: Ints, length: int, n_lists: int, stream: NDArray[np.uint64]) -> Ints:
    """Draw lists (n_lists, length): at each position a ranker, chosen uniformly, adds its best document not yet there."""
    n_rankers, n_documents = rankings.shape
    lists = np.empty((n_lists, length), np.int64)
    for which in range(n_lists):
        shown = np.zeros(n_documents, np.bool_)
        following = np.zeros(n_rankers, np.int64)
        for position in range(length):
            i, rank = 0, -1
            while rank < 0:  # one that has nothing left leaves the position to another
                i = below(stream, n_rankers)
                rank = next_new(rankings[i], following[i], shown)
            following[i] = rank
            lists[which, position] = rankings[i, following[i]]
            shown[lists[which, position]] = True
    return lists
