"""What a list of clicks from the past says about two rankers that never met: importance-weighted probabilistic interleaving.

Reference: Hofmann et al., "Reusing historical interaction data for faster online learning to rank for IR" (WSDM 2013).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import exp, log
from duelrank.kernels.inference import MARGIN
from duelrank.kernels.probabilistic import _masses, preference, whole_gains
from duelrank.kernels.random import below, uniform
from duelrank.kernels.ranking import scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def draw_chances(ranks: Ints, n_documents: int, tau: float) -> Floats:
    """P(the ranker draws the document shown at a position | those above are gone), from their ranks: (n_rankers, length)."""
    n_rankers, length = ranks.shape
    masses = _masses(n_documents, tau)
    chances = np.empty((n_rankers, length))
    for i in range(n_rankers):
        left = masses.copy()
        for position in range(length):
            left[ranks[i, position]] = 0.0
        # Added up from the end: subtracting from the whole would cancel for a steep softmax.
        rest = 0.0
        for r in range(n_documents):
            rest += left[r]
        for position in range(length - 1, -1, -1):
            mass = masses[ranks[i, position]]
            rest += mass
            chances[i, position] = mass / rest
    return chances


@kernel
def log_probability(ranks: Ints, n_documents: int, tau: float) -> float:
    """Log of P(list | it was multileaved from these rankers), each position drawn from a random one of them."""
    chances = draw_chances(ranks, n_documents, tau)
    total = 0.0
    for position in range(ranks.shape[1]):
        chance = 0.0
        for i in range(ranks.shape[0]):
            chance += chances[i, position]
        total += log(chance / ranks.shape[0])
    return total


@kernel
def replay(rankers: Floats, features: Floats, ranking: Ints, place: Ints, tau: float, chances: Floats) -> None:
    """Fill in P(each ranker draws the document shown at each position of an earlier list): (n_rankers, at least its length).

    Only the ranks of the shown documents matter: they are counted, nothing is sorted. Of documents that are tied the one with
    the earlier place comes first; there may be more places than documents.
    """
    n_rankers, n_documents, length = rankers.shape[0], features.shape[0], ranking.shape[0]
    table = scores(rankers, features)
    ranks = np.empty((n_rankers, length), np.int64)
    for i in range(n_rankers):
        for position in range(length):
            document = ranking[position]
            score, own, rank = table[i, document], place[document], 0
            for other in range(n_documents):
                rank += (table[i, other] > score) | ((table[i, other] == score) & (place[other] < own))
            ranks[i, position] = rank
    drawn = draw_chances(ranks, n_documents, tau)
    for i in range(n_rankers):
        for position in range(length):
            chances[i, position] = drawn[i, position]


@kernel
def replayed_outcome(one: Floats, other: Floats, gains: Floats, log_source: float) -> tuple[float, float]:
    """Log of the importance weight of an earlier list, and E[sign(gains of one − gains of the other)] given that list.

    Their product's mean over lists from the source rankers is the outcome that interleaving these two would have on average.
    """
    shares, n = np.empty((gains.shape[0], 2)), 0
    log_weight = -log_source
    for position in range(gains.shape[0]):
        both = one[position] + other[position]
        log_weight += log(0.5 * both)
        if gains[position] > 0.0:
            shares[n, 0], shares[n, 1] = one[position] / both, other[position] / both
            n += 1
    return log_weight, preference(shares[:n, 0], shares[:n, 1], whole_gains(gains))


@kernel
def _match(one: int, other: int, chances: Floats, gains: Floats, log_sources: Floats, times: Ints) -> float:
    """Sum of the weighted outcomes of the earlier lists, each as often as given, in units of the largest weight."""
    largest, total = -math.inf, 0.0
    for item in range(times.shape[0]):
        if times[item] > 0:
            weight, outcome = replayed_outcome(chances[item, one], chances[item, other], gains[item], log_sources[item])
            if weight > largest:
                total *= exp(largest - weight)
                largest = weight
            total += times[item] * exp(weight - largest) * outcome
    return total


@kernel
def tournament(
    chances: Floats, gains: Floats, log_sources: Floats, repetitions: int, stream: NDArray[np.uint64]
) -> int:
    """Let random pairs meet on earlier lists drawn with replacement; the loser leaves, until one is left: its index.

    The chances are (n_lists, n_rankers, length); where a list is shorter than others they are 1 and nothing is clicked. Without a
    preference a coin decides.
    """
    n_lists, n_left, _ = chances.shape
    left, times = np.empty(n_left, np.int64), np.empty(n_lists, np.int64)
    for i in range(n_left):
        left[i] = i
    while n_left > 1:
        i, j = below(stream, n_left), below(stream, n_left - 1)
        j += j >= i
        for item in range(n_lists):
            times[item] = 0
        for _ in range(repetitions):
            times[below(stream, n_lists)] += 1
        outcome = _match(left[i], left[j], chances, gains, log_sources, times)
        first_lost = uniform(stream) < 0.5 if abs(outcome) <= MARGIN else outcome < 0.0
        n_left -= 1
        left[i if first_lost else j] = left[n_left]
    return left[0]
