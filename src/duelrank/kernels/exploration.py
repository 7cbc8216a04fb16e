"""Kernels of exploration: candidate directions, and the replay of past impressions with new candidates.

Reference of the replay: Hofmann et al., "Reusing historical interaction data for faster online learning to rank for IR" (WSDM
2013), importance-weighted probabilistic interleaving.
"""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Stream
from duelrank.kernels.elementary import exp, log
from duelrank.kernels.inference import MARGIN
from duelrank.kernels.multileaving import _masses, preference, whole_gains
from duelrank.kernels.projection import dot, project, qr_basis, subtract
from duelrank.kernels.random import below, normals, uniform
from duelrank.kernels.ranking import best_first, scores


@kernel
def normalise_rows(rows: Floats) -> None:
    """Scale each row to length 1, in place; a row of zeros stays."""
    for i in range(rows.shape[0]):
        total = dot(rows[i], rows[i])
        if total > 0.0:
            length = math.sqrt(total)
            for k in range(rows.shape[1]):
                rows[i, k] /= length


@kernel
def unit_directions(n: int, n_features: int, stream: Stream) -> Floats:
    """Draw n directions uniformly from the unit sphere."""
    directions = normals(stream, n, n_features)
    normalise_rows(directions)
    return directions


@kernel
def spanning_rows(features: Floats, weights: Floats, top: int, centred: bool) -> Floats:
    """Copy the top documents by the weights, ties in the order of the rows; if ``centred``, subtract their mean.

    The remainder of a feature that is equal in all of them is a rounding error, and becomes zero.
    """
    n = min(top, features.shape[0])
    rows = np.empty((n, features.shape[1]))
    if n == features.shape[0]:
        rows[:] = features
    else:
        order = best_first(scores(weights.reshape(1, -1), features)[0])
        for i in range(n):
            rows[i] = features[order[i]]
    if centred:
        mean = np.zeros(rows.shape[1])
        for i in range(n):
            mean += rows[i]
        mean /= n
        for i in range(n):
            for k in range(mean.shape[0]):
                rest = rows[i, k] - mean[k]
                rows[i, k] = rest if abs(rest) > 1e-12 * abs(mean[k]) else 0.0
    return rows


@kernel
def span_directions(rows: Floats, n: int, unit: bool, stream: Stream) -> Floats:
    """Draw n uniform unit vectors and project them onto the span of the rows; if ``unit``, scale them to length 1 again.

    Directions of the span below 1e-9 of the longest row are rounding errors, such as that of a document minus an equal mean.
    """
    basis = qr_basis(rows, 1e-9)
    directions = unit_directions(n, rows.shape[1], stream)
    for i in range(n):
        directions[i] = project(directions[i], basis)
    if unit:
        normalise_rows(directions)
    return directions


@kernel
def null_space_directions(avoided: Floats, features: Floats, n_drawn: int, n_kept: int, stream: Stream) -> Floats:
    """Draw unit vectors orthogonal to the avoided basis; keep those with the largest |u · mean document of the query|.

    They stay in the order in which they were drawn. The coordinates in the avoided space suffice to choose them, so only vectors
    that are kept are projected.
    """
    n_features = features.shape[1]
    mean = np.zeros((1, n_features))
    for document in range(features.shape[0]):
        subtract(mean[0], -1.0, features[document])
    drawn = normals(stream, n_drawn, n_features)
    inside, toward, along = scores(avoided, drawn), scores(avoided, mean), scores(mean, drawn)
    reach = np.empty(n_drawn)
    for i in range(n_drawn):
        left, length = along[0, i], dot(drawn[i], drawn[i])
        for j in range(avoided.shape[0]):
            left -= inside[j, i] * toward[j, 0]
            length -= inside[j, i] * inside[j, i]
        reach[i] = abs(left) / math.sqrt(length)
    chosen = np.zeros(n_drawn, np.bool_)
    for i in best_first(reach)[:n_kept]:
        chosen[i] = True
    directions, n = np.empty((n_kept, n_features)), 0
    for i in range(n_drawn):
        if chosen[i]:
            directions[n] = drawn[i]
            for j in range(avoided.shape[0]):
                subtract(directions[n], inside[j, i], avoided[j])
            n += 1
    normalise_rows(directions)
    return directions


@kernel
def worst_rows(losers: Floats, margins: Floats, n: int) -> Floats:
    """Return the n rows with the smallest margins; of equal margins the newest, which come last in the table."""
    n_losers = margins.shape[0]
    order = best_first(-margins[::-1])[:n]
    worst = np.empty((order.shape[0], losers.shape[1]))
    for i in range(order.shape[0]):
        worst[i] = losers[n_losers - 1 - order[i]]
    return worst


@kernel
def remember_losers(
    losers: Floats, margins: Floats, directions: Floats, credit: Floats, n_low: int, capacity: int
) -> tuple[Floats, Floats]:
    """Append the directions that lost, oldest first, and keep the newest up to the capacity.

    A loser has less credit than the current ranker and no more than the n_low-th smallest of all rankers.
    """
    n_rankers, n_old = credit.shape[0], losers.shape[0]
    bar = credit[best_first(-credit)[min(n_low, n_rankers) - 1]]
    n_all = n_old
    for i in range(1, n_rankers):
        n_all += credit[i] < credit[0] and credit[i] <= bar
    if n_all == n_old:
        return losers, margins
    rows, row_margins = np.empty((n_all, losers.shape[1])), np.empty(n_all)
    rows[:n_old], row_margins[:n_old] = losers, margins
    for i in range(1, n_rankers):
        if credit[i] < credit[0] and credit[i] <= bar:
            rows[n_old], row_margins[n_old] = directions[i - 1], credit[i] - credit[0]
            n_old += 1
    return rows[-capacity:].copy(), row_margins[-capacity:].copy()


@kernel
def draw_chances(ranks: Ints, n_documents: int, tau: float) -> Floats:
    """Return P(the ranker draws the document shown at a position | those above are gone), from the ranks: (n_rankers, length)."""
    n_rankers, length = ranks.shape
    masses = _masses(n_documents, tau)
    chances = np.empty((n_rankers, length))
    for i in range(n_rankers):
        left = masses.copy()
        for position in range(length):
            left[ranks[i, position]] = 0.0
        # Summed from the end: subtracting from the total would cancel for a steep softmax.
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
    """Return log P(list | these rankers), where each position is drawn from a random one of them."""
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
    """Set ``chances``, (n_rankers, at least the length), to P(ranker draws the document at each position of an earlier list).

    Only the ranks of the shown documents matter, so they are counted instead of sorting all. Of tied documents the one with the
    earlier place comes first; there may be more places than documents.
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
    """Return the log importance weight of an earlier list, and E[sign(gains of one − gains of the other)] given that list.

    The mean of weight · sign over lists of the source rankers is the expected outcome of interleaving these two rankers.
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
    """Return the sum of the weighted outcomes of the earlier lists, each as often as given, in units of the largest weight."""
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
def tournament(chances: Floats, gains: Floats, log_sources: Floats, repetitions: int, stream: Stream) -> int:
    """Compare random pairs on earlier lists drawn with replacement and remove each loser; return the index of the last ranker.

    The chances are (n_lists, n_rankers, length); beyond the end of a shorter list they are 1, and nothing is clicked. If neither is
    preferred, the loser is chosen at random.
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
