"""Probabilistic multileaving: lists drawn from softmax rankers, and the expected preference of each candidate, exact or sampled.

References: Hofmann, Whiteson and de Rijke (CIKM 2011); Schuth et al. (SIGIR 2015).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import power
from duelrank.kernels.leaving import MISSING, returned
from duelrank.kernels.random import below, categories, multinomial, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MANY = 16  # samples per ranker from which a multinomial draw is cheaper than single ones
_FINEST = 1000  # gains are told apart to this part of their sum
_CLOSE = 1e-9  # how near a multiple is to a whole number that is one but for rounding


@kernel
def _masses(n_documents: int, tau: float) -> Floats:
    """Unnormalised probability of each rank, 1/r^τ with r from 1."""
    masses = np.empty(n_documents)
    for r in range(n_documents):
        rank = r + 1.0
        masses[r] = 1.0 / (rank * rank * rank) if tau == 3.0 else power(rank, -tau)  # the usual τ without a power
    return masses


@kernel
def leave(rankings: Ints, length: int, tau: float, stream: NDArray[np.uint64]) -> tuple[Ints, Ints, Ints]:
    """Fill each position: choose a ranker uniformly, then draw from its softmax over its documents not yet shown.

    A ranker that has none left leaves the position to another. Returns the list, the rank, from 0, of each shown document in each
    ranking, (n_rankers, length), and how many documents each ranker returned.
    """
    n_rankers, n_documents = rankings.shape
    masses = _masses(n_documents, tau)
    sizes = returned(rankings)
    shown, ranking = np.empty(n_documents, np.int64), np.empty(length, np.int64)
    for document in range(n_documents):
        shown[document] = -1
    for position in range(length):
        drawn = -1
        while drawn < 0:
            i = below(stream, n_rankers)
            rest = 0.0
            for r in range(sizes[i]):
                if shown[rankings[i, r]] < 0:
                    rest += masses[r]
            target = uniform(stream) * rest
            for r in range(sizes[i]):
                if shown[rankings[i, r]] < 0:
                    drawn = rankings[i, r]
                    target -= masses[r]
                    if target < 0.0:
                        break
        ranking[position] = drawn
        shown[drawn] = position
    ranks = np.empty((n_rankers, length), np.int64)
    for i in range(n_rankers):
        for position in range(length):
            ranks[i, position] = MISSING
        for r in range(sizes[i]):
            if shown[rankings[i, r]] >= 0:
                ranks[i, shown[rankings[i, r]]] = r
    return ranking, ranks, sizes


@kernel
def placements(ranks: Ints, gains: Floats, sizes: Ints, tau: float) -> Floats:
    """P(ranker i placed the document | the list), for each clicked position: (n_clicks, n_rankers), rows sum to 1.

    Ranker i has returned sizes[i] documents; others it cannot have placed.
    """
    n_rankers, length = ranks.shape
    n_clicks, largest = 0, 0
    for position in range(length):
        n_clicks += gains[position] > 0.0
    for i in range(n_rankers):
        largest = max(largest, sizes[i])
    masses, shown, table = _masses(largest, tau), np.empty(largest, np.bool_), np.empty((n_clicks, n_rankers))
    for i in range(n_rankers):
        for r in range(sizes[i]):
            shown[r] = False
        for row in range(n_clicks):
            table[row, i] = 0.0
        for position in range(length):
            if ranks[i, position] < MISSING:
                shown[ranks[i, position]] = True
        # What was left to draw from is added up from the end: subtracting from the whole would cancel for a steep softmax.
        rest = 0.0
        for r in range(sizes[i]):
            rest += 0.0 if shown[r] else masses[r]
        row = n_clicks
        for position in range(length - 1, -1, -1):
            row -= gains[position] > 0.0
            if ranks[i, position] < MISSING:
                rest += masses[ranks[i, position]]
                if gains[position] > 0.0:
                    table[row, i] = masses[ranks[i, position]] / rest
    for row in range(n_clicks):
        total = 0.0
        for i in range(n_rankers):
            total += table[row, i]
        for i in range(n_rankers):
            table[row, i] = table[row, i] / total if total > 0.0 else 0.0
    return table


@kernel
def whole_gains(gains: Floats) -> Ints:
    """The gains of the clicks, from the top, as whole numbers in the same proportions: 1 for each if all gains are equal.

    The smallest gain is divided into as few parts as make all gains multiples of one. Where that takes more than 1,000 parts in
    all, or there is none, gains are rounded to thousandths of their sum; every click keeps at least 1.
    """
    most, n = 0.0, 0
    for position in range(gains.shape[0]):
        most = max(most, gains[position])
        n += gains[position] > 0.0
    shares, whole, n = np.empty(n), np.empty(n, np.int64), 0
    for position in range(gains.shape[0]):
        if gains[position] > 0.0:
            shares[n] = gains[position] / most  # of the largest, so that no sum overflows
            n += 1
    total, least = np.sum(shares), np.min(shares) if n > 0 else 1.0
    parts = 1
    while parts * total <= _FINEST * least:
        exact = True
        for click in range(n):
            multiple = shares[click] * parts / least
            whole[click] = round(multiple)
            exact &= abs(multiple - whole[click]) <= _CLOSE * multiple
        if exact:
            return whole
        parts += 1
    for click in range(n):
        whole[click] = max(1, round(shares[click] * _FINEST / total))
    return whole


@kernel
def preference(wins: Floats, losses: Floats, steps: Ints) -> float:
    """E[sign] of a sum of independent steps, each taken up, taken down or left out with the given probabilities, by convolution.

    Where wins equal losses the result is exactly 0: mirrored entries are computed by mirrored, hence equal, operations.
    """
    end = longest = 0
    for step in steps:
        end += step
        longest = max(longest, step)
    zero = end + longest  # where the sum is 0; no step from where it may be leads out of the array
    chance, following = np.empty(2 * zero + 1), np.empty(2 * zero + 1)
    for k in range(2 * zero + 1):
        chance[k] = following[k] = 0.0
    chance[zero] = 1.0
    reached = 0
    for click in range(steps.shape[0]):
        win, loss, step = wins[click], losses[click], steps[click]
        stay = 1.0 - (win + loss)
        reached += step
        for k in range(zero - reached, zero + reached + 1):
            following[k] = chance[k] * stay + (chance[k - step] * win + chance[k + step] * loss)
        chance, following = following, chance
    total = 0.0
    for k in range(1, end + 1):
        total += chance[zero + k] - chance[zero - k]
    return total


@kernel
def credit(ranks: Ints, gains: Floats, sizes: Ints, tau: float) -> Floats:
    """Expected preference of each candidate over the current ranker, in [−1, 1]; entry 0 is the current one's own 0."""
    table, steps = placements(ranks, gains, sizes, tau), whole_gains(gains)
    values = np.empty(ranks.shape[0])
    values[0] = 0.0
    for i in range(1, ranks.shape[0]):
        values[i] = preference(table[:, i], table[:, 0], steps)
    return values


@kernel
def assignments(table: Floats, samples: int, stream: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Draw, many times, who placed each clicked document by its row of `placements`.

    Returns assignments, (n_drawn, n_clicks), and for how many samples each stands. Samples that agree so far stay together while
    they are many, as how they divide over the rankers is one multinomial draw. Such groups come first in the arrays, and single
    samples from the end: a group has room for itself wherever it falls apart.
    """
    n_clicks, n_rankers = table.shape
    owners, times = np.empty((samples, n_clicks), np.int64), np.ones(samples, np.int64)
    times[0], n_groups, first = samples, 1, samples  # single samples are those from `first` on
    for click in range(n_clicks):
        groups, sizes = owners[:n_groups, :click].copy(), times[:n_groups].copy()
        many = sizes > _MANY * n_rankers
        drawn = categories(stream, table[click], samples - np.sum(sizes[many]))
        owners[first:, click] = drawn[: samples - first]
        used, n_groups = samples - first, 0
        for group in range(sizes.shape[0]):
            if many[group]:
                counts = multinomial(stream, sizes[group], table[click])
                for i in np.flatnonzero(counts):
                    owners[n_groups, :click], owners[n_groups, click], times[n_groups] = groups[group], i, counts[i]
                    n_groups += 1
            else:
                for i in drawn[used : used + sizes[group]]:
                    first -= 1
                    owners[first, :click], owners[first, click], times[first] = groups[group], i, 1
                used += sizes[group]
    return np.concatenate((owners[:n_groups], owners[first:])), np.concatenate((times[:n_groups], times[first:]))


@kernel
def sampled_preference(owners: Ints, times: Ints, steps: Ints, n_rankers: int, rival: int) -> Floats:
    """Mean over sampled assignments of sign(gains of ranker i − gains of the rival), for each i; the gains are whole numbers.

    Most rankers own no click of a sample. They lose where the rival owns one: that is counted once for all of them, and what
    the few owners do better is added to it.
    """
    total, counts = np.zeros(n_rankers, np.int64), np.zeros(n_rankers, np.int64)
    lost = 0
    for sample in range(times.shape[0]):
        for click in range(steps.shape[0]):
            counts[owners[sample, click]] += steps[click]
        against = counts[rival]
        behind = 1 if against > 0 else 0
        lost += behind * times[sample]
        for i in owners[sample]:
            if counts[i] > 0:
                lead = counts[i] - against
                total[i] += times[sample] * ((1 if lead > 0 else (-1 if lead < 0 else 0)) + behind)
            counts[i] = 0
    total[rival] = lost
    return (total - lost) / np.sum(times)
