"""BatchRank on one query: batches of documents that share a range of positions, and split when clicks tell them apart.

A model is a (7, n_documents) table. By document: the first position of its batch (−1 once eliminated), how often it was counted and
clicked in this stage, and in all stages. By position, at the first of each batch: how many positions the batch has, and
its stage. Reference: Zoghi et al. (ICML 2017); its batch b starts at I_b(1), has len(b) positions and is in stage ℓ_b.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from duelrank.kernels.click_bandits import kl_budget, kl_upper
from duelrank.kernels.random import permutation
from duelrank.kernels.ranking import best_first

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCH, SEEN, CLICKED, ALL_SEEN, ALL_CLICKED, POSITIONS, STAGE = range(7)


@njit(cache=True)
def stage_length(stage: int, horizon: int) -> int:
    """n_ℓ = ⌈16 · Δ̃_ℓ^−2 · log T⌉ with Δ̃_ℓ = 2^−ℓ, at least 1: how often a stage counts each document."""
    return max(1, math.ceil(16.0 * 4.0**stage * math.log(horizon)))


@njit(cache=True)
def _least(model: Ints, batch: int) -> int:
    """How often the least counted documents of a batch were counted."""
    least = np.iinfo(np.int64).max
    for document in range(model.shape[1]):
        if model[BATCH, document] == batch:
            least = min(least, model[SEEN, document])
    return least


@njit(cache=True)
def display(model: Ints, length: int, stream: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Fill the positions of every batch with its least counted documents, in random order.

    Returns the list, and for each position how many positions its batch has and its stage. What a list is longer than the model
    is filled at random with other documents, and marked as of no batch.
    """
    n = model.shape[1]
    ranking, batches = np.empty(max(n, length), np.int64), np.zeros((2, length), np.int64)
    shuffled, used = permutation(stream, n), np.zeros(n, np.bool_)
    first = 0
    while first < n and model[POSITIONS, first] > 0:
        positions, least, taken = model[POSITIONS, first], _least(model, first), 0
        places = permutation(stream, positions)
        for extra in range(2):  # counts differ by one at most
            for document in shuffled:
                wanted = model[BATCH, document] == first and model[SEEN, document] == least + extra
                if wanted and taken < positions:
                    ranking[first + places[taken]] = document
                    used[document] = True
                    taken += 1
        batches[0, first : first + positions] = positions
        batches[1, first : first + positions] = model[STAGE, first]
        first += positions
    for document in shuffled:
        if not used[document] and first < length:
            ranking[first] = document
            first += 1
    return ranking[:length].copy(), batches


@njit(cache=True)
def collect(model: Ints, ranking: Ints, clicks: NDArray[np.bool_], batches: Ints, horizon: int) -> Ints:
    """The model after a list: its clicks are counted, then stages that are complete end.

    Only the least counted documents count, and only where their batch is still in the stage for which the list was made.
    """
    after = model.copy()
    first = 0
    while first < model.shape[1] and model[POSITIONS, first] > 0:
        positions, stage, least = model[POSITIONS, first], model[STAGE, first], _least(model, first)
        for position in range(first, min(first + positions, ranking.shape[0])):
            document = ranking[position]
            current = batches[0, position] == positions and batches[1, position] == stage
            if current and model[BATCH, document] == first and model[SEEN, document] == least:
                after[SEEN, document] += 1
                after[ALL_SEEN, document] += 1
                after[CLICKED, document] += clicks[position]
                after[ALL_CLICKED, document] += clicks[position]
        if _least(after, first) >= stage_length(stage, horizon):
            _end_stage(after, first, horizon)
        first += positions
    return after


@njit(cache=True)
def _end_stage(model: Ints, first: int, horizon: int) -> None:
    """Split the batch at the lowest position where all above are surely better than all below, else eliminate; in place."""
    documents = np.flatnonzero(model[BATCH] == first)
    positions, seen = model[POSITIONS, first], model[SEEN, documents[0]]
    lower, upper = np.empty(documents.shape[0]), np.empty(documents.shape[0])
    for i in range(documents.shape[0]):
        mean, radius = model[CLICKED, documents[i]] / seen, kl_budget(horizon) / seen
        upper[i] = kl_upper(mean, radius)
        lower[i] = min(mean, 1.0 - kl_upper(1.0 - mean, radius))  # rounding must not eliminate everyone
    order = best_first(lower)
    split, highest_below = 0, -1.0
    for k in range(documents.shape[0] - 1, 0, -1):
        highest_below = max(highest_below, upper[order[k]])
        if split == 0 and k < positions and lower[order[k - 1]] > highest_below:
            split = k
    if split > 0:
        model[BATCH, documents[order[split:]]] = first + split
        model[POSITIONS, first], model[POSITIONS, first + split] = split, positions - split
        model[STAGE, first] = 0
    else:
        model[BATCH, documents[upper < lower[order[positions - 1]]]] = -1
        model[STAGE, first] += 1
    model[SEEN, documents] = 0
    model[CLICKED, documents] = 0
