"""Reference versions of `duelrank.kernels.multileaving`."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.multileaving import MISSING
from duelrank.kernels.random import below, categories, multinomial, permutation, uniform


def shown_ranks(rankings: Ints, ranking: Ints) -> Ints:
    """Return the rank of each shown document in each ranking."""
    orders = [order.tolist() for order in rankings]
    return np.array([[order.index(d) if d in order else MISSING for d in ranking] for order in orders], np.int64)


def returned(rankings: Ints) -> Ints:
    """Return how many documents each ranker returned."""
    return np.array([len([d for d in order if d >= 0]) for order in rankings], np.int64)


def next_new(order: Ints, start: int, shown: Any) -> int:
    """Return the first rank of a document that is not yet shown."""
    return next((r for r in range(start, len(order)) if order[r] >= 0 and not shown[order[r]]), -1)


def draw_lists(rankings: Ints, length: int, n_lists: int, stream: Any) -> Ints:
    """Draw lists in which every position is the best remaining document of a random ranker."""
    lists: list[list[int]] = []
    for _ in range(n_lists):
        shown: list[int] = []
        for _ in range(length):
            left: list[int] = []
            while not left:
                order = rankings[below(stream, rankings.shape[0])]
                left = [int(document) for document in order if document >= 0 and document not in shown]
            shown.append(left[0])
        lists.append(shown)
    return np.array(lists, np.int64)


def team_draft_leave(rankings: Ints, length: int, stream: Any) -> tuple[Ints, Ints]:
    """Return the list and the ranker that owns each position; −1 at the leading positions that all agree on."""
    ranking: list[int] = []
    teams: list[int] = []
    for column in rankings.T[:length]:
        if column[0] < 0 or (column != column[0]).any():
            break
        ranking.append(int(column[0]))
        teams.append(-1)
    while len(ranking) < length:
        _one_round(rankings, list(range(rankings.shape[0])), ranking, teams, length, stream)
    return np.array(ranking, np.int64), np.array(teams, np.int64)


def _one_round(
    rankings: Ints, rankers: list[int], ranking: list[int], teams: list[int], length: int, stream: Any
) -> bool:
    """Let each ranker add its best document that is left, in random order; return whether one did."""
    before = len(ranking)
    for turn in permutation(stream, len(rankers)):
        i = rankers[turn]
        left = [int(document) for document in rankings[i] if document >= 0 and document not in ranking]
        if left and len(ranking) < length:
            ranking.append(left[0])
            teams.append(i)
    return len(ranking) > before


def pair_draft_leave(rankings: Ints, length: int, stream: Any) -> tuple[Ints, Ints, Ints]:
    """Return the list of two random rankers, the owner of each position, and the two; the others fill what is left."""
    n = rankings.shape[0]
    drawn = [int(i) for i in permutation(stream, n)] if n > 2 else [0, 1]
    pair, others = sorted(drawn[:2]), drawn[2:]
    ranking: list[int] = []
    for one, other in rankings[pair].T[:length]:
        if one != other or one < 0:
            break
        ranking.append(int(one))
    teams = [-1] * len(ranking)
    while len(ranking) < length and _one_round(rankings, pair, ranking, teams, length, stream):
        pass
    owned = len(ranking)
    while len(ranking) < length:
        _one_round(rankings, others, ranking, teams, length, stream)
    teams[owned:] = [-1] * (length - owned)
    return np.array(ranking, np.int64), np.array(teams, np.int64), np.array(pair, np.int64)


def team_draft_credit(teams: Ints, gains: Floats, n_rankers: int) -> Floats:
    """Return the sum of the gains of the documents of each ranker."""
    return np.array([np.sum(gains[teams == i]) for i in range(n_rankers)])


def balanced_leave(rankings: Ints, length: int, stream: Any) -> Ints:
    """Advance two pointers, as in the paper: the one behind, and of equal ones that of the ranker that was drawn."""
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


def balanced_credit(ranks: Ints, gains: Floats) -> Floats:
    """Return the sum of the gains in the top k of each ranker, k the better rank of the lowest click."""
    clicked = ranks[:, gains > 0.0]
    if clicked.shape[1] == 0:
        return np.zeros(2)
    return np.asarray((clicked <= clicked[:, -1].min()) @ gains[gains > 0.0])


def probabilistic_leave(rankings: Ints, length: int, tau: float, stream: Any) -> tuple[Ints, Ints, Ints]:
    """Fill each position from a random ranker's softmax over the documents not yet shown."""
    masses = np.arange(1, rankings.shape[1] + 1.0) ** -tau
    ranking: list[int] = []
    for _ in range(length):
        free = np.zeros(1, bool)
        while not free.any():
            order = rankings[below(stream, rankings.shape[0])]
            free = (order >= 0) & ~np.isin(order, ranking)
            bounds = np.cumsum(np.where(free, masses, 0.0))
            target = uniform(stream) * bounds[-1]
        rank = (
            int(np.flatnonzero(free & (target < bounds))[0]) if target < bounds[-1] else int(np.flatnonzero(free)[-1])
        )
        ranking.append(int(order[rank]))
    shown = np.array(ranking, np.int64)
    return shown, shown_ranks(rankings, shown), returned(rankings)


def placements(ranks: Ints, gains: Floats, sizes: Ints, tau: float) -> Floats:
    """Return P(ranker i placed the document | the list), for each clicked position."""
    table = []
    for position in np.flatnonzero(gains):
        chances = np.zeros(len(ranks))
        for i, row in enumerate(ranks):
            left = {r: (r + 1.0) ** -tau for r in range(sizes[i]) if r not in row[:position]}
            chances[i] = 0.0 if row[position] == MISSING else left[row[position]] / sum(left.values())
        table.append(chances / chances.sum())
    return np.array(table).reshape(-1, ranks.shape[0])


def whole_gains(gains: Floats) -> Ints:
    """Return whole numbers in the proportions of the positive gains, as small as possible."""
    exact = [Fraction(gain) for gain in gains.tolist() if gain > 0.0]
    for parts in range(1, 1001):
        multiples = [gain / min(exact) * parts for gain in exact]
        if sum(multiples) <= 1000 and all(abs(each - round(each)) <= Fraction(1, 10**9) * each for each in multiples):
            return np.array([round(each) for each in multiples], np.int64)
    return np.array([max(1, round(1000 * gain / sum(exact))) for gain in exact], np.int64)


def preference(wins: Floats, losses: Floats, steps: Ints) -> float:
    """Return E[sign] of a sum of independent steps, from the convolution of their distributions."""
    chance, zero = np.array([1.0]), int(steps.sum())
    for win, loss, step in zip(wins, losses, steps, strict=True):
        each = np.zeros(2 * step + 1)
        each[[0, step, 2 * step]] = loss, 1.0 - win - loss, win
        chance = np.convolve(chance, each)
    return float(chance[zero + 1 :].sum() - chance[:zero].sum())


def probabilistic_credit(ranks: Ints, gains: Floats, sizes: Ints, tau: float) -> Floats:
    """Return the expected preference of each candidate over the current ranker."""
    table, steps = placements(ranks, gains, sizes, tau), whole_gains(gains)
    return np.array([0.0] + [preference(table[:, i], table[:, 0], steps) for i in range(1, ranks.shape[0])])


def assignments(table: Floats, samples: int, stream: Any) -> tuple[Ints, Ints]:
    """Draw which ranker placed each clicked document; large groups of equal samples stay together."""
    groups: list[tuple[list[int], int]] = [([], samples)]
    single: list[list[int]] = []
    for chances in table:
        many = sum(size for _, size in groups if size > 16 * len(chances))
        drawn = categories(stream, chances, samples - many).tolist()
        single = [[*owners, drawn.pop(0)] for owners in single]
        divided = []
        for owners, size in groups:
            if size > 16 * len(chances):
                counts = multinomial(stream, size, chances)
                divided += [([*owners, i], count) for i, count in enumerate(counts.tolist()) if count]
            else:
                for _ in range(size):
                    single.insert(0, [*owners, drawn.pop(0)])
        groups = divided
    drawn_owners = [each for each, _ in groups] + single
    times = [size for _, size in groups] + [1] * len(single)
    return np.array(drawn_owners, np.int64).reshape(len(times), len(table)), np.array(times, np.int64)


def sampled_preference(owners: Ints, times: Ints, steps: Ints, n_rankers: int, rival: int) -> Floats:
    """Return the mean of sign(gains of each ranker − gains of the rival)."""
    counts = np.array([np.bincount(each, steps, n_rankers) for each in owners]).reshape(-1, n_rankers)
    return np.average(np.sign(counts - counts[:, [rival]]), axis=0, weights=times)


def sample_only_scored_credit(ranks: Ints, gains: Floats, tau: float) -> Floats:
    """Rank the shown documents again by each ranker, then sum 1/r^τ times the gains."""
    again = ranks.argsort(axis=1).argsort(axis=1) + 1.0
    points = np.where(ranks < MISSING, again**-tau, 0.0)
    return np.asarray(points @ gains)


def pairwise_preference_leave(rankings: Ints, length: int, stream: Any) -> tuple[Ints, Ints, Ints]:
    """Draw each position from the union of the tops of the rankers down to that position."""
    ranking: list[int] = []
    choices: list[int] = []
    pool: list[int] = []
    for position in range(length):
        pool += [d for d in dict.fromkeys(rankings[:, position].tolist()) if d >= 0 and d not in pool + ranking]
        chosen = below(stream, len(pool))
        choices.append(len(pool))
        ranking.append(pool[chosen])
        pool[chosen] = pool[-1]  # the last one takes the free place
        pool.pop()
    earliest = [min(order.tolist().index(document) for order in rankings if document in order) for document in ranking]
    return np.array(ranking, np.int64), np.array(earliest, np.int64), np.array(choices, np.int64)


def pair_weights(earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Return the lead in gain over P(neither was placed before both could be), for each pair of different gains."""
    weights = np.zeros((gains.size, gains.size))
    clicked = np.flatnonzero(gains)
    for better in clicked:
        for worse in np.flatnonzero(gains[: clicked[-1] + 2] < gains[better]):
            low, high = sorted((earliest[better], earliest[worse]))
            if better >= high and worse >= high:
                weights[better, worse] = (gains[better] - gains[worse]) / np.prod(1.0 - 1.0 / choices[low:high])
    return weights


def pairwise_preference_credit(ranks: Ints, earliest: Ints, choices: Ints, gains: Floats) -> Floats:
    """Return the sum of the weights of all preferences, with the sign by which each ranker orders the pair."""
    weights = pair_weights(earliest, choices, gains)
    return np.array([np.sum(weights * np.where(row[:, np.newaxis] < row[np.newaxis, :], 1.0, -1.0)) for row in ranks])


def contested_pairs_credit(ranks: Ints, gains: Floats) -> Floats:
    """Sum over all ordered pairs of positions in which the first has the larger gain."""
    sums = np.zeros(len(ranks))
    clicked = np.flatnonzero(gains > 0.0)
    depth = clicked[-1] + 2 if clicked.size else 0
    for better, worse in permutations(range(min(depth, gains.size)), 2):
        if gains[better] > gains[worse]:
            agree, contradict = ranks[:, better] < ranks[:, worse], ranks[:, worse] < ranks[:, better]
            other_way = contradict if better < worse else agree
            sums += (gains[better] - gains[worse]) * other_way.mean() * agree
    return sums
