"""Balanced interleaving: two rankings zipped together, a coin decides which goes first.

References: Joachims (2003); Radlinski, Kurup and Joachims (CIKM 2008).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import below

Ints = NDArray[np.int64]


@kernel
def leave(rankings: Ints, length: int, stream: NDArray[np.uint64]) -> Ints:
    """Go down both rankings in step and add what is new; the ranker that the coin chose is one ahead at most."""
    first = below(stream, 2)
    ranking = np.empty(length, np.int64)
    shown = np.zeros(rankings.shape[1], np.bool_)
    filled, turn = 0, 0
    while filled < length:
        document = rankings[(first + turn) % 2, turn // 2]
        if document >= 0 and not shown[document]:
            ranking[filled] = document
            shown[document] = True
            filled += 1
        turn += 1
    return ranking


@kernel
def credit(ranks: Ints, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up each ranker's gains down to the rank at which the first of both has the lowest click."""
    sums = np.zeros(2)
    depth = -1
    for position in range(gains.shape[0]):
        if gains[position] > 0.0:
            depth = min(ranks[0, position], ranks[1, position])
    for position in range(gains.shape[0]):
        for i in range(2):
            if ranks[i, position] <= depth:
                sums[i] += gains[position]
    return sums
