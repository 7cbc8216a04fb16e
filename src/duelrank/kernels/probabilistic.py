"""Probabilistic multileaving: lists drawn from softmax rankers, and the exact expected preference of each candidate.

References: Hofmann, Whiteson and de Rijke (CIKM 2011); Schuth et al. (SIGIR 2015).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import below, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def _masses(n_documents: int, tau: float) -> Floats:
    """Unnormalised probability of each rank, 1/r^τ with r from 1."""
    masses = np.empty(n_documents)
    for r in range(n_documents):
        rank = r + 1.0
        masses[r] = 1.0 / (rank * rank * rank) if tau == 3.0 else rank**-tau  # the usual τ without a power
    return masses


@kernel
def leave(rankings: Ints, length: int, tau: float, stream: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Fill each position: choose a ranker uniformly, then draw from its softmax over the documents not yet shown.

    Returns the list and the rank, from 0, of each shown document in each ranking: (n_rankers, length).
    """
    n_rankers, n_documents = rankings.shape
    masses = _masses(n_documents, tau)
    shown, ranking = np.empty(n_documents, np.int64), np.empty(length, np.int64)
    for document in range(n_documents):
        shown[document] = -1
    for position in range(length):
        order = rankings[below(stream, n_rankers)]
        rest = 0.0
        for r in range(n_documents):
            if shown[order[r]] < 0:
                rest += masses[r]
        target = uniform(stream) * rest
        drawn = -1
        for r in range(n_documents):
            if shown[order[r]] < 0:
                drawn = order[r]
                target -= masses[r]
                if target < 0.0:
                    break
        ranking[position] = drawn
        shown[drawn] = position
    ranks = np.empty((n_rankers, length), np.int64)
    for i in range(n_rankers):
        for r in range(n_documents):
            if shown[rankings[i, r]] >= 0:
                ranks[i, shown[rankings[i, r]]] = r
    return ranking, ranks


@kernel
def placements(ranks: Ints, clicks: NDArray[np.bool_], n_documents: int, tau: float) -> Floats:
    """P(ranker i placed the document | the list), for each clicked position: (n_clicks, n_rankers), rows sum to 1."""
    n_rankers, length = ranks.shape
    masses = _masses(n_documents, tau)
    n_clicks = 0
    for position in range(length):
        n_clicks += clicks[position]
    table, shown = np.empty((n_clicks, n_rankers)), np.empty(n_documents, np.bool_)
    for i in range(n_rankers):
        for r in range(n_documents):
            shown[r] = False
        for position in range(length):
            shown[ranks[i, position]] = True
        # What was left to draw from is added up from the end: subtracting from the whole would cancel for a steep softmax.
        rest = 0.0
        for r in range(n_documents):
            rest += 0.0 if shown[r] else masses[r]
        row = table.shape[0]
        for position in range(length - 1, -1, -1):
            rest += masses[ranks[i, position]]
            if clicks[position]:
                row -= 1
                table[row, i] = masses[ranks[i, position]] / rest
    for row in range(n_clicks):
        total = 0.0
        for i in range(n_rankers):
            total += table[row, i]
        for i in range(n_rankers):
            table[row, i] /= total
    return table


@kernel
def preference(wins: Floats, losses: Floats) -> float:
    """E[sign] of a sum of independent steps, each +1, −1 or 0 with the given probabilities, by convolution.

    Where wins equal losses the result is exactly 0: mirrored entries are computed by mirrored, hence equal, operations.
    """
    n = wins.shape[0]
    chance, following = np.empty(2 * n + 3), np.empty(2 * n + 3)  # of the sum being index − n − 1
    for k in range(2 * n + 3):
        chance[k] = following[k] = 0.0
    chance[n + 1] = 1.0
    for step in range(n):
        win, loss = wins[step], losses[step]
        stay = 1.0 - (win + loss)
        for k in range(n - step, n + step + 3):
            following[k] = chance[k] * stay + (chance[k - 1] * win + chance[k + 1] * loss)
        chance, following = following, chance
    total = 0.0
    for k in range(1, n + 1):
        total += chance[n + 1 + k] - chance[n + 1 - k]
    return total


@kernel
def credit(ranks: Ints, clicks: NDArray[np.bool_], n_documents: int, tau: float) -> Floats:
    """Expected preference of each candidate over the current ranker, in [−1, 1]; entry 0 is the current one's own 0."""
    table = placements(ranks, clicks, n_documents, tau)
    values = np.empty(ranks.shape[0])
    values[0] = 0.0
    for i in range(1, ranks.shape[0]):
        values[i] = preference(table[:, i], table[:, 0])
    return values
