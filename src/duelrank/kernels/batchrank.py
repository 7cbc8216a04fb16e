"""BatchRank on one query: batches of documents that share a range of positions, and split when clicks tell them apart.

A model is a (7, n_documents) table. By document: the first position of its batch (−1 once eliminated), how often it was counted and
clicked in this stage, and in all stages. By position, at the first of each batch: how many positions the batch has, and
its stage. Reference: Zoghi et al. (ICML 2017); its batch b starts at I_b(1), has len(b) positions and is in stage ℓ_b.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import log, power
from duelrank.kernels.random import permutation

Ints = NDArray[np.int64]

BATCH, SEEN, CLICKED, ALL_SEEN, ALL_CLICKED, POSITIONS, STAGE = range(7)


@kernel
def stage_length(stage: int, horizon: int) -> int:
    """n_ℓ = ⌈16 · Δ̃_ℓ^−2 · log T⌉ with Δ̃_ℓ = 2^−ℓ, at least 1: how often a stage counts each document."""
    return max(1, math.ceil(16.0 * power(4.0, stage) * log(horizon)))


@kernel
def least_counts(model: Ints) -> Ints:
    """How often the least counted documents of each batch were counted, at the batch's first position."""
    least = np.full(model.shape[1], np.iinfo(np.int64).max)
    for document in range(model.shape[1]):
        batch = model[BATCH, document]
        if batch >= 0 and model[SEEN, document] < least[batch]:
            least[batch] = model[SEEN, document]
    return least


@kernel
def complete(model: Ints, horizon: int) -> int:
    """The first position of a batch all of whose documents were counted as often as its stage asks for; −1 where there is none."""
    least = least_counts(model)
    for first in range(model.shape[1]):
        if model[POSITIONS, first] > 0 and least[first] >= stage_length(model[STAGE, first], horizon):
            return first
    return -1


@kernel
def display(model: Ints, length: int, stream: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Fill the positions of every batch with its least counted documents, in random order.

    Returns the list, and for each position how many positions its batch has and its stage. What a list is longer than the model
    is filled at random with other documents, and marked as of no batch.
    """
    n = model.shape[1]
    ranking, batches = np.empty(n, np.int64), np.zeros((2, n), np.int64)
    least, shuffled, used = least_counts(model), permutation(stream, n), np.zeros(n, np.bool_)
    first = 0
    while first < n and model[POSITIONS, first] > 0:
        positions, taken = model[POSITIONS, first], 0
        places = permutation(stream, positions)
        for extra in range(2):  # counts differ by one at most
            for document in shuffled:
                waiting = model[BATCH, document] == first and model[SEEN, document] == least[first] + extra
                if waiting and taken < positions:
                    position = first + places[taken]
                    ranking[position], used[document] = document, True
                    batches[0, position], batches[1, position] = positions, model[STAGE, first]
                    taken += 1
        first += positions
    for document in shuffled:
        if not used[document] and first < n:
            ranking[first] = document
            first += 1
    return ranking[:length].copy(), batches[:, :length].copy()


@kernel
def collect(model: Ints, ranking: Ints, clicks: NDArray[np.bool_], batches: Ints) -> Ints:
    """The model after the clicks on a list.

    Only the least counted documents count, and only where their batch is still in the stage for which the list was made.
    """
    after, least = model.copy(), least_counts(model)
    first = 0
    for position in range(ranking.shape[0]):
        if model[POSITIONS, position] > 0:
            first = position
        document, positions = ranking[position], model[POSITIONS, first]
        same = batches[0, position] == positions and batches[1, position] == model[STAGE, first]
        if (
            same
            and position < first + positions
            and model[BATCH, document] == first
            and model[SEEN, document] == least[first]
        ):
            after[SEEN, document] += 1
            after[ALL_SEEN, document] += 1
            after[CLICKED, document] += clicks[position]
            after[ALL_CLICKED, document] += clicks[position]
    return after
