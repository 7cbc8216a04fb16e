"""Kernels of click bandits: confidence bounds, and BatchRank.

References: Kveton et al. (ICML 2015); Garivier and Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond" (COLT
2011); Zoghi et al. (ICML 2017).
"""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Flags, Floats, Ints, Stream
from duelrank.kernels.elementary import expm1, log, power
from duelrank.kernels.random import permutation

# Rows of the model of BatchRank, (7, n_documents). By document: the first position of its batch (−1 once eliminated), how often it
# was counted and clicked in this stage, and in all stages. By position, at the first of each batch: the number of positions of the
# batch, and its stage. The paper's batch b starts at I_b(1), has len(b) positions and is in stage ℓ_b.
BATCH, SEEN, CLICKED, ALL_SEEN, ALL_CLICKED, POSITIONS, STAGE = range(7)


@kernel
def kl_upper(mean: float, radius: float) -> float:
    """Return the largest q from the mean to 1 with KL(mean ‖ q) ≤ radius, the divergence of two Bernoulli distributions.

    The divergence is convex in q, so Newton's method never passes the root if it starts above it. Two bounds lie above: that of
    KL ≥ 2(q − mean)² (Pinsker), and that of KL without its term −mean · log q ≥ 0.
    """
    if radius <= 0.0 or mean >= 1.0:
        return mean
    if mean <= 0.0:
        return -expm1(-radius)
    entropy = mean * log(mean) + (1.0 - mean) * log(1.0 - mean)
    q = min(mean + math.sqrt(0.5 * radius), -expm1((entropy - radius) / (1.0 - mean)))
    for _ in range(30):
        if q >= 1.0:
            return 1.0
        excess = entropy - mean * log(q) - (1.0 - mean) * log(1.0 - q) - radius
        step = excess * q * (1.0 - q) / (q - mean)
        if step < 1e-14:
            break
        q -= step
    return q


@kernel
def kl_budget(t: float) -> float:
    """Return log t + 3 log log t, the divergence that KL-UCB allows after t rounds, or 0 if that is negative."""
    return max(log(t) + 3.0 * log(log(t)), 0.0) if t > 2.0 else 0.0


@kernel
def ucb1(model: Ints, rounds: int) -> Floats:
    """Return clicks/seen + √(1.5 · log rounds / seen) of each document; infinite if it was never seen.

    The model is a (2, n_documents) table of how often each document was seen, and clicked.
    """
    bounds = np.full(model.shape[1], np.inf)
    log_rounds = log(max(rounds, 1))
    for document in range(model.shape[1]):
        seen = model[0, document]
        if seen > 0:
            bounds[document] = model[1, document] / seen + math.sqrt(1.5 * log_rounds / seen)
    return bounds


@kernel
def kl_ucb(model: Ints, rounds: int) -> Floats:
    """Return the largest q with seen · KL(clicks/seen ‖ q) ≤ log t + 3 log log t, t = rounds + 1; infinite if never seen."""
    bounds = np.full(model.shape[1], np.inf)
    budget = kl_budget(rounds + 1.0)
    for document in range(model.shape[1]):
        seen = model[0, document]
        if seen > 0:
            bounds[document] = kl_upper(model[1, document] / seen, budget / seen)
    return bounds


@kernel
def count(model: Ints, ranking: Ints, clicks: Flags, examined: int) -> Ints:
    """Return the model after the first positions of a list were examined, and clicked or not."""
    after = model.copy()
    for position in range(examined):
        after[0, ranking[position]] += 1
        after[1, ranking[position]] += clicks[position]
    return after


@kernel
def stage_length(stage: int, horizon: int) -> int:
    """Return how often a stage counts each document: n_ℓ = ⌈16 · Δ̃_ℓ^−2 · log T⌉ with Δ̃_ℓ = 2^−ℓ, at least 1."""
    return max(1, math.ceil(16.0 * power(4.0, stage) * log(horizon)))


@kernel
def least_counts(model: Ints) -> Ints:
    """Return how often the least counted documents of each batch were counted, at the first position of the batch."""
    least = np.full(model.shape[1], np.iinfo(np.int64).max)
    for document in range(model.shape[1]):
        batch = model[BATCH, document]
        if batch >= 0 and model[SEEN, document] < least[batch]:
            least[batch] = model[SEEN, document]
    return least


@kernel
def complete(model: Ints, horizon: int) -> int:
    """Return the first position of a batch whose documents were all counted as often as its stage requires; −1 if there is none."""
    least = least_counts(model)
    for first in range(model.shape[1]):
        if model[POSITIONS, first] > 0 and least[first] >= stage_length(model[STAGE, first], horizon):
            return first
    return -1


@kernel
def display(model: Ints, length: int, stream: Stream) -> tuple[Ints, Ints]:
    """Fill the positions of every batch with its least counted documents, in random order.

    Returns the list, and for each position the number of positions of its batch, and its stage. If the list is longer than the
    model, other documents fill the rest at random; these positions have no batch.
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
def collect(model: Ints, ranking: Ints, clicks: Flags, batches: Ints) -> Ints:
    """Return the model after the clicks on a list.

    Only the least counted documents count, and only if their batch is still in the stage for which the list was made.
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
