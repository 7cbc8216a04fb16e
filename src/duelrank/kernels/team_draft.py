"""Team draft multileaving: rankers take turns at adding their best remaining document and own what they added.

References: Radlinski, Kurup and Joachims (CIKM 2008); Schuth et al. (CIKM 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.leaving import next_new
from duelrank.kernels.random import permutation

Ints = NDArray[np.int64]


@kernel
def _common_top(rankings: Ints, length: int) -> int:
    """How many leading positions all rankers agree on."""
    for position in range(length):
        for i in range(1, rankings.shape[0]):
            if rankings[i, position] != rankings[0, position] or rankings[0, position] < 0:
                return position
    return length


@kernel
def leave(rankings: Ints, length: int, stream: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Return the list and the ranker that owns each position; −1 on the top that all rankers agree on.

    A ranker that has nothing left to add misses its turn.
    """
    n_rankers, n_documents = rankings.shape
    ranking, teams = np.empty(length, np.int64), np.full(length, -1)
    shown = np.zeros(n_documents, np.bool_)
    following = np.zeros(n_rankers, np.int64)
    filled = _common_top(rankings, length)
    for position in range(filled):
        ranking[position] = rankings[0, position]
        shown[ranking[position]] = True
    while filled < length:
        for i in permutation(stream, n_rankers):
            if filled == length:
                break
            rank = next_new(rankings[i], following[i], shown)
            if rank < 0:  # it has nothing left to add
                continue
            following[i] = rank
            ranking[filled], teams[filled] = rankings[i, rank], i
            shown[ranking[filled]] = True
            filled += 1
    return ranking, teams


@kernel
def credit(teams: Ints, gains: NDArray[np.float64], n_rankers: int) -> NDArray[np.float64]:
    """Add up the gains of each ranker's documents."""
    sums = np.zeros(n_rankers)
    for position in range(gains.shape[0]):
        if teams[position] >= 0:
            sums[teams[position]] += gains[position]
    return sums
