"""Slow twins of `duelrank.kernels.team_draft`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.random import permutation

Ints = NDArray[np.int64]


def leave(rankings: Ints, length: int, stream: Any) -> tuple[Ints, Ints]:
    """Return the list and the ranker that owns each position; −1 on the top that all agree on."""
    ranking: list[int] = []
    teams: list[int] = []
    for column in rankings.T[:length]:
        if column[0] < 0 or (column != column[0]).any():
            break
        ranking.append(int(column[0]))
        teams.append(-1)
    while len(ranking) < length:
        for i in permutation(stream, rankings.shape[0]):
            left = [int(document) for document in rankings[i] if document >= 0 and document not in ranking]
            if left and len(ranking) < length:
                ranking.append(left[0])
                teams.append(int(i))
    return np.array(ranking, np.int64), np.array(teams, np.int64)


def credit(teams: Ints, gains: NDArray[np.float64], n_rankers: int) -> NDArray[np.float64]:
    """Add up the gains of each ranker's documents."""
    return np.array([np.sum(gains[teams == i]) for i in range(n_rankers)])
