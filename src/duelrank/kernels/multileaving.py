"""Kernels of multileaving: one list from many rankings, and the credit of each ranker from its clicks.

A ranker may return only some of the documents: its row of the rankings then ends in −1. Every document is returned by some ranker.
The classes in `duelrank.multileaving` have the references of the methods.
"""

from __future__ import annotations

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Flags, Floats, Ints, Stream
from duelrank.kernels.elementary import power
from duelrank.kernels.inference import last_click
from duelrank.kernels.random import below, categories, multinomial, permutation, uniform

MISSING = 1 << 60  # the rank of a document that a ranker did not return: after all that it did return

_MANY = 16  # samples per ranker from which a multinomial draw is cheaper than single ones
_FINEST = 1000  # gains are distinguished to this part of their sum
_CLOSE = 1e-9  # relative difference from a whole number that is a rounding error


@kernel
def returned(rankings: Ints) -> Ints:
    """Return the number of documents that each ranker returned."""
    counts = np.full(rankings.shape[0], rankings.shape[1])
    for i in range(rankings.shape[0]):
        while counts[i] > 0 and rankings[i, counts[i] - 1] < 0:
            counts[i] -= 1
    return counts


@kernel
def shown_ranks(rankings: Ints, ranking: Ints) -> Ints:
    """Return the rank, from 0, of each shown document in each ranking, MISSING if it is not there: (n_rankers, length)."""
    n_rankers, n_documents = rankings.shape
    position = np.full(n_documents, -1)
    for p in range(ranking.shape[0]):
        position[ranking[p]] = p
    ranks = np.full((n_rankers, ranking.shape[0]), MISSING)
    for i in range(n_rankers):
        for r in range(n_documents):
            if rankings[i, r] < 0:
                break
            if position[rankings[i, r]] >= 0:
                ranks[i, position[rankings[i, r]]] = r
    return ranks


@kernel
def next_new(order: Ints, start: int, shown: Flags) -> int:
    """Return the first rank, from the start on, of a document that is not yet shown; −1 if the ranker has none left."""
    for r in range(start, order.shape[0]):
        if order[r] < 0:
            break
        if not shown[order[r]]:
            return r
    return -1


@kernel
def draw_lists(rankings: Ints, length: int, n_lists: int, stream: Stream) -> Ints:
    """Draw lists (n_lists, length): at each position a ranker, chosen uniformly, adds its best document not yet there."""
    n_rankers, n_documents = rankings.shape
    lists = np.empty((n_lists, length), np.int64)
    for which in range(n_lists):
        shown = np.zeros(n_documents, np.bool_)
        following = np.zeros(n_rankers, np.int64)
        for position in range(length):
            i, rank = 0, -1
            while rank < 0:  # a ranker without documents left is skipped
                i = below(stream, n_rankers)
                rank = next_new(rankings[i], following[i], shown)
            following[i] = rank
            lists[which, position] = rankings[i, following[i]]
            shown[lists[which, position]] = True
    return lists


@kernel
def _common_top(rankings: Ints, length: int) -> int:
    """Return the number of leading positions that all rankers agree on."""
    for position in range(length):
        for i in range(1, rankings.shape[0]):
            if rankings[i, position] != rankings[0, position] or rankings[0, position] < 0:
                return position
    return length


@kernel
def _take_turns(rankings: Ints, rankers: Ints, ranking: Ints, teams: Ints, filled: int, stream: Stream) -> int:
    """Let these rankers fill a list until it is full or they have no documents left; return how many positions are filled.

    In each round they add their best remaining document in random order; a ranker with none left misses its turn.
    """
    shown = np.zeros(rankings.shape[1], np.bool_)
    shown[ranking[:filled]] = True
    following = np.zeros(rankings.shape[0], np.int64)
    before = -1
    while before < filled < ranking.shape[0]:
        before = filled
        for turn in permutation(stream, rankers.shape[0]):
            if filled == ranking.shape[0]:
                break
            i = rankers[turn]
            rank = next_new(rankings[i], following[i], shown)
            if rank < 0:
                continue
            following[i] = rank
            ranking[filled], teams[filled] = rankings[i, rank], i
            shown[ranking[filled]] = True
            filled += 1
    return filled


@kernel
def team_draft_leave(rankings: Ints, length: int, stream: Stream) -> tuple[Ints, Ints]:
    """Return the list and the ranker that owns each position; −1 at the leading positions that all rankers agree on.

    In each round the rankers add their best remaining document in random order; a ranker with none left misses its turn.
    """
    ranking, teams = np.empty(length, np.int64), np.full(length, -1)
    filled = _common_top(rankings, length)
    ranking[:filled] = rankings[0, :filled]
    _take_turns(rankings, np.arange(rankings.shape[0]), ranking, teams, filled, stream)
    return ranking, teams


@kernel
def pair_draft_leave(rankings: Ints, length: int, stream: Stream) -> tuple[Ints, Ints, Ints]:
    """Return the list, the ranker that owns each position, and the two rankers that are compared.

    Two rankers, drawn at random, make the list as in `team_draft_leave`. If they have none left, the others fill it in the same
    way, and own nothing.
    """
    n_rankers = rankings.shape[0]
    drawn = permutation(stream, n_rankers) if n_rankers > 2 else np.arange(n_rankers)
    pair = np.sort(drawn[:2])
    ranking, teams = np.empty(length, np.int64), np.full(length, -1)
    filled = _common_top(rankings[pair], length)
    ranking[:filled] = rankings[pair[0], :filled]
    filled = _take_turns(rankings, pair, ranking, teams, filled, stream)
    if filled < length:
        _take_turns(rankings, drawn[2:], ranking, np.empty(length, np.int64), filled, stream)
    return ranking, teams, pair


@kernel
def team_draft_credit(teams: Ints, gains: Floats, n_rankers: int) -> Floats:
    """Return the sum of the gains of the documents that each ranker owns."""
    sums = np.zeros(n_rankers)
    for position in range(gains.shape[0]):
        if teams[position] >= 0:
            sums[teams[position]] += gains[position]
    return sums


@kernel
def balanced_leave(rankings: Ints, length: int, stream: Stream) -> Ints:
    """Alternate between two rankings, the first chosen at random, and add each document that is not yet in the list."""
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
def balanced_credit(ranks: Ints, gains: Floats) -> Floats:
    """Return the sum of the gains in the top k of each ranker, with k the better rank of the lowest clicked document."""
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


@kernel
def _masses(n_documents: int, tau: float) -> Floats:
    """Return the unnormalised probability of each rank, 1/r^τ with r from 1."""
    masses = np.empty(n_documents)
    for r in range(n_documents):
        rank = r + 1.0
        masses[r] = 1.0 / (rank * rank * rank) if tau == 3.0 else power(rank, -tau)  # the usual τ without a power
    return masses


@kernel
def probabilistic_leave(rankings: Ints, length: int, tau: float, stream: Stream) -> tuple[Ints, Ints, Ints]:
    """Fill each position: choose a ranker uniformly, then draw from its softmax over its documents not yet shown.

    If the ranker has none left, another one is chosen. Returns the list, the rank, from 0, of each shown document in each ranking,
    (n_rankers, length), and the number of documents that each ranker returned.
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
    """Return P(ranker i placed the document | the list) for each clicked position: (n_clicks, n_rankers), rows sum to 1.

    Ranker i returned sizes[i] documents; it cannot have placed any other.
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
        # The mass of the remaining documents is summed from the end: subtraction would cancel for a steep softmax.
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
    """Return the gains of the clicks, from the top, as whole numbers in the same proportions: 1 for each if all are equal.

    The smallest gain is divided into the fewest parts of which all gains are multiples. If the sum would be more than 1,000 parts,
    gains are rounded to thousandths of their sum instead; every click keeps at least 1.
    """
    most, n = 0.0, 0
    for position in range(gains.shape[0]):
        most = max(most, gains[position])
        n += gains[position] > 0.0
    shares, whole, n = np.empty(n), np.empty(n, np.int64), 0
    for position in range(gains.shape[0]):
        if gains[position] > 0.0:
            shares[n] = gains[position] / most  # so that no sum overflows
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
    """Return E[sign] of a sum of independent steps, each added, subtracted or left out with given probabilities, by convolution.

    If wins equal losses the result is exactly 0: mirrored entries are computed by mirrored, hence equal, operations.
    """
    end = longest = 0
    for step in steps:
        end += step
        longest = max(longest, step)
    zero = end + longest  # the index of sum 0; no step leads out of the array
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
def probabilistic_credit(ranks: Ints, gains: Floats, sizes: Ints, tau: float) -> Floats:
    """Return the expected preference of each candidate over the current ranker, in [−1, 1]; entry 0 is 0."""
    table, steps = placements(ranks, gains, sizes, tau), whole_gains(gains)
    values = np.empty(ranks.shape[0])
    values[0] = 0.0
    for i in range(1, ranks.shape[0]):
        values[i] = preference(table[:, i], table[:, 0], steps)
    return values


@kernel
def assignments(table: Floats, samples: int, stream: Stream) -> tuple[Ints, Ints]:
    """Draw samples of which ranker placed each clicked document, by its row of `placements`.

    Returns assignments, (n_drawn, n_clicks), and the number of samples that each represents. Large groups of samples that agree so
    far stay together: one multinomial draw divides a group over the rankers. Groups are at the front of the arrays and single
    samples at the end, so a group that is split into single samples has room.
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
    """Return the mean over samples of sign(gains of ranker i − gains of the rival), for each i; the gains are whole numbers.

    Most rankers own no click of a sample, and lose if the rival owns one. That is counted once for all of them, and corrected for
    the few owners.
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


@kernel
def sample_only_scored_credit(ranks: Ints, gains: Floats, tau: float) -> Floats:
    """Return Σ gain/r^τ over the clicks, r from 1 the rank of the clicked document among the shown ones."""
    n_rankers, length = ranks.shape
    sums = np.zeros(n_rankers)
    for position in range(length):
        if gains[position] > 0.0:
            for i in range(n_rankers):
                if ranks[i, position] < MISSING:
                    rank = 1.0
                    for other in range(length):
                        rank += ranks[i, other] < ranks[i, position]
                    sums[i] += gains[position] * power(rank, -tau)
    return sums


@kernel
def pairwise_preference_leave(rankings: Ints, length: int, stream: Stream) -> tuple[Ints, Ints, Ints]:
    """Fill position p, from 0, uniformly from the documents that some ranker has in its top p + 1 and that are not yet shown.

    Returns the list, the earliest position that each shown document could have had, and the number of documents to choose from at
    each position.
    """
    n_rankers, n_documents = rankings.shape
    ranking, choices = np.empty(length, np.int64), np.empty(length, np.int64)
    earliest = np.full(n_documents, -1)
    pool = np.empty(n_documents, np.int64)
    size = 0
    for position in range(length):
        for i in range(n_rankers):
            document = rankings[i, position]
            if document >= 0 and earliest[document] < 0:
                earliest[document] = position
                pool[size] = document
                size += 1
        chosen = below(stream, size)
        choices[position] = size
        ranking[position] = pool[chosen]
        size -= 1
        pool[chosen] = pool[size]
    return ranking, earliest[ranking], choices


@kernel
def pair_weights(earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Return the weight of each preference (better, worse position): lead in gain / P(both orders possible); 0 without preference.

    A document is preferred to those of less gain above the lowest click and to the one right below it. A pair counts if neither
    document is above the position from which both could have been chosen: from there on both orders are equally likely. To get
    there, the document that could be chosen earlier was not chosen at any position s before, each with probability
    1 − 1/choices(s).
    """
    length = gains.shape[0]
    weights = np.zeros((length, length))
    considered = 0
    for position in range(length):
        if gains[position] > 0.0:
            considered = min(position + 2, length)
    for better in range(considered):
        for worse in range(considered):
            low, high = min(earliest[better], earliest[worse]), max(earliest[better], earliest[worse])
            if gains[better] > gains[worse] and min(better, worse) >= high:
                chance = 1.0
                for position in range(low, high):
                    chance *= 1.0 - 1.0 / choices[position]
                weights[better, worse] = (gains[better] - gains[worse]) / chance
    return weights


@kernel
def pairwise_preference_credit(ranks: Ints, earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Return the sum of the weights of the preferences that a ranker agrees with, minus those of all others.

    A ranker that did not return the clicked document does not agree, whether or not it returned the other one.
    """
    n_rankers, length = ranks.shape
    weights = pair_weights(earliest, choices, gains)
    sums = np.zeros(n_rankers)
    for i in range(n_rankers):
        for better in range(length):
            for worse in range(length):
                sums[i] += weights[better, worse] * (1.0 if ranks[i, better] < ranks[i, worse] else -1.0)
    return sums


@kernel
def contested_pairs_credit(ranks: Ints, gains: Floats) -> Floats:
    """Return Σ (g_i − g_j) ρ over the pairs of a larger gain g_i and a smaller gain g_j that a ranker has in this order.

    Pairs go down to one position below the last click. ρ is the share of rankers that have the pair in the order opposite to the
    list.
    """
    n_rankers, length = ranks.shape
    sums = np.zeros(n_rankers)
    depth = min(last_click(gains > 0.0) + 1, length)
    for upper in range(depth):
        for lower in range(upper + 1, depth):
            if gains[upper] != gains[lower]:
                n_against = 0
                for i in range(n_rankers):
                    n_against += ranks[i, lower] < ranks[i, upper]
                better, worse = (upper, lower) if gains[upper] > gains[lower] else (lower, upper)
                points = (gains[better] - gains[worse]) * (n_against / n_rankers)
                for i in range(n_rankers):
                    if ranks[i, better] < ranks[i, worse]:
                        sums[i] += points
    return sums
