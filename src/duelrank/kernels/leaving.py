"""What several ways of merging rankings share: the ranks of what was shown, and lists that keep the rankers' prefixes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import below

Ints = NDArray[np.int64]


@kernel
def shown_ranks(rankings: Ints, ranking: Ints) -> Ints:
    """Rank, from 0, of each shown document in each ranking: (n_rankers, length)."""
    n_rankers, n_documents = rankings.shape
    position = np.full(n_documents, -1)
    for p in range(ranking.shape[0]):
        position[ranking[p]] = p
    ranks = np.empty((n_rankers, ranking.shape[0]), np.int64)
    for i in range(n_rankers):
        for r in range(n_documents):
            if position[rankings[i, r]] >= 0:
                ranks[i, position[rankings[i, r]]] = r
    return ranks


@kernel
def draw_lists(rankings: Ints, length: int, n_lists: int, stream: NDArray[np.uint64]) -> Ints:
    """Draw lists (n_lists, length): at each position a ranker, chosen uniformly, adds its best document not yet there."""
    n_rankers, n_documents = rankings.shape
    lists = np.empty((n_lists, length), np.int64)
    for which in range(n_lists):
        shown = np.zeros(n_documents, np.bool_)
        following = np.zeros(n_rankers, np.int64)
        for position in range(length):
            i = below(stream, n_rankers)
            while shown[rankings[i, following[i]]]:
                following[i] += 1
            lists[which, position] = rankings[i, following[i]]
            shown[lists[which, position]] = True
    return lists
