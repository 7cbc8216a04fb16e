"""Slow twins of `duelrank.kernels.probabilistic`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.leaving import MISSING
from duelrank.kernels.random import below, categories, multinomial, uniform
from duelrank.testing.reference.leaving import returned, shown_ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def leave(rankings: Ints, length: int, tau: float, stream: Any) -> tuple[Ints, Ints, Ints]:
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
    """P(ranker i placed the document | the list), for each clicked position."""
    table = []
    for position in np.flatnonzero(gains):
        chances = np.zeros(len(ranks))
        for i, row in enumerate(ranks):
            left = {r: (r + 1.0) ** -tau for r in range(sizes[i]) if r not in row[:position]}
            chances[i] = 0.0 if row[position] == MISSING else left[row[position]] / sum(left.values())
        table.append(chances / chances.sum())
    return np.array(table).reshape(-1, ranks.shape[0])


def whole_gains(gains: Floats) -> Ints:
    """Whole numbers in the proportions of the positive gains: the first multiples of the smallest that are all whole."""
    exact = [Fraction(gain) for gain in gains.tolist() if gain > 0.0]
    for parts in range(1, 1001):
        multiples = [gain / min(exact) * parts for gain in exact]
        if sum(multiples) <= 1000 and all(abs(each - round(each)) <= Fraction(1, 10**9) * each for each in multiples):
            return np.array([round(each) for each in multiples], np.int64)
    return np.array([max(1, round(1000 * gain / sum(exact))) for gain in exact], np.int64)


def preference(wins: Floats, losses: Floats, steps: Ints) -> float:
    """E[sign] of a sum of independent steps: convolve their distributions, then compare both sides of zero."""
    chance, zero = np.array([1.0]), int(steps.sum())
    for win, loss, step in zip(wins, losses, steps, strict=True):
        each = np.zeros(2 * step + 1)
        each[[0, step, 2 * step]] = loss, 1.0 - win - loss, win
        chance = np.convolve(chance, each)
    return float(chance[zero + 1 :].sum() - chance[:zero].sum())


def credit(ranks: Ints, gains: Floats, sizes: Ints, tau: float) -> Floats:
    """Expected preference of each candidate over the current ranker."""
    table, steps = placements(ranks, gains, sizes, tau), whole_gains(gains)
    return np.array([0.0] + [preference(table[:, i], table[:, 0], steps) for i in range(1, ranks.shape[0])])


def assignments(table: Floats, samples: int, stream: Any) -> tuple[Ints, Ints]:
    """Draw who placed each clicked document: groups of samples that agree are divided, small ones fall apart."""
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
    """Mean of sign(gains of each ranker − gains of the rival)."""
    counts = np.array([np.bincount(each, steps, n_rankers) for each in owners]).reshape(-1, n_rankers)
    return np.average(np.sign(counts - counts[:, [rival]]), axis=0, weights=times)
