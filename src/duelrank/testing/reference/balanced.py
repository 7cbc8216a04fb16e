"""Slow twins of `duelrank.kernels.balanced`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.random import below

Ints = NDArray[np.int64]


def leave(rankings: Ints, length: int, stream: Any) -> Ints:
    """Two pointers, as in the paper: the one behind moves, and where both are level the one that the coin chose."""
    first_leads = below(stream, 2) == 0
    ranking: list[int] = []
    a = b = 0
    while len(ranking) < length:
        if a < b or (a == b and first_leads):
            document, a = int(rankings[0, a]), a + 1
        else:
            document, b = int(rankings[1, b]), b + 1
        if document >= 0 and document not in ranking:
            ranking.append(document)
    return np.array(ranking, np.int64)


def credit(ranks: Ints, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the gains in the top k of each ranker, k the better rank of the lowest click."""
    clicked = ranks[:, gains > 0.0]
    if clicked.shape[1] == 0:
        return np.zeros(2)
    return np.asarray((clicked <= clicked[:, -1].min()) @ gains[gains > 0.0])
