"""PairRank: lists whose certain pairs are ordered and whose uncertain ones are shuffled, and one step of its pairwise regression.

Reference: Jia et al., "PairRank: online pairwise learning to rank by divide-and-conquer" (WWW 2021).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import permutation
from duelrank.kernels.ranking import scores, sorted_rows
from duelrank.kernels.span import dot, subtract

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@kernel
def _certain(lead: float, squared_norm: float, width: float) -> bool:
    """Whether the lower bound of P(i ≻ j) is over 1/2, with the lead of i in score and |x_i − x_j|² in the norm of M⁻¹."""
    return 1.0 / (1.0 + math.exp(-lead)) - width * math.sqrt(max(squared_norm, 0.0)) > 0.5


@kernel
def _measure(rows: Floats, inverse: Floats, i: int, products: Floats, norms: Floats) -> None:
    """Fill in M⁻¹x and xᵀM⁻¹x of row i and of its neighbours: four rows share each pass over M⁻¹."""
    first = i - i % 4
    last = min(first + 4, rows.shape[0])
    fresh = scores(rows[first:last], inverse)
    for row in range(first, last):
        norms[row] = max(dot(fresh[row - first], rows[row]), 0.0)
        for k in range(rows.shape[1]):
            products[row, k] = fresh[row - first, k]


@kernel
def shuffled_blocks(
    weights: Floats, inverse: Floats, features: Floats, width: float, length: int, stream: NDArray[np.uint64]
) -> Ints:
    """Rank by score, cut into the smallest blocks that leave no uncertain pair across a cut, and shuffle each; the top of that.

    A block reaches down to the last document that is uncertain against one of its own, so the search goes up from the bottom, and
    only what it meets is measured: early on one pair shows that there is one block. Blocks below the list are not looked for.
    """
    n, n_features = features.shape
    scored = scores(weights.copy().reshape(1, -1), features)
    order = sorted_rows(scored, permutation(stream, n))[0]
    leads, rows = np.empty(n), np.empty((n, n_features))
    for i in range(n):
        leads[i] = scored[0, order[i]]
        for k in range(n_features):
            rows[i, k] = features[order[i], k]
    products, norms, ranking = np.empty((n, n_features)), np.full(n, -1.0), np.empty(length, np.int64)
    start = stop = i = 0  # the block is order[start:stop], once i has gone through it
    while start < length:
        stop = max(stop, i + 1)
        if norms[i] < 0.0:
            _measure(rows, inverse, i, products, norms)
        for j in range(n - 1, stop - 1, -1):
            if norms[j] < 0.0:
                _measure(rows, inverse, j, products, norms)
            squared_norm = norms[i] + norms[j] - 2.0 * dot(products[i], rows[j])
            if not _certain(leads[i] - leads[j], squared_norm, width):
                stop = j + 1
                break
        i += 1
        if i == stop:
            mixed = permutation(stream, stop - start)
            for position in range(start, min(stop, length)):
                ranking[position] = order[start + mixed[position - start]]
            start = stop
    return ranking


@kernel
def independent_pairs(clicks: Flags, seen: Flags, stream: NDArray[np.uint64]) -> Ints:
    """Match clicked positions with seen but unclicked ones at random, each in one pair at most: (n_pairs, 2)."""
    positions = np.empty((clicks.shape[0], 2), np.int64)  # the clicked ones, and beside them the unclicked ones
    n_clicked = n_unclicked = 0
    for position in range(clicks.shape[0]):
        if clicks[position]:
            positions[n_clicked, 0] = position
            n_clicked += 1
        elif seen[position]:
            positions[n_unclicked, 1] = position
            n_unclicked += 1
    winners, losers = permutation(stream, n_clicked), permutation(stream, n_unclicked)
    pairs = np.empty((min(n_clicked, n_unclicked), 2), np.int64)
    for pair in range(pairs.shape[0]):
        pairs[pair, 0] = positions[winners[pair], 0]
        pairs[pair, 1] = positions[losers[pair], 1]
    return pairs


@kernel
def newton_step(
    weights: Floats, inverse: Floats, features: Floats, ranking: Ints, pairs: Ints
) -> tuple[Floats, Floats]:
    """Return M⁻¹ Σ (1 − P(i ≻ j)) x over the preferences i ≻ j, x = x_i − x_j, and M⁻¹ itself, each x xᵀ having been added to M.

    Sherman and Morrison's formula for one pair after the other: M⁻¹ loses r rᵀ with r = M⁻¹x / √(1 + xᵀM⁻¹x). The large matrix is
    read twice, whatever the number of pairs: M⁻¹x by the old inverse for all pairs at once, less what the pairs before took away;
    then all are subtracted row by row.
    """
    n_pairs, n_features = pairs.shape[0], features.shape[1]
    differences = np.empty((n_pairs, n_features))
    for pair in range(n_pairs):
        for k in range(n_features):
            differences[pair, k] = features[ranking[pairs[pair, 0]], k] - features[ranking[pairs[pair, 1]], k]
    removed = scores(differences, inverse)
    for pair in range(n_pairs):
        for before in range(pair):
            subtract(removed[pair], dot(removed[before], differences[pair]), removed[before])
        shrink = 1.0 / math.sqrt(1.0 + max(dot(removed[pair], differences[pair]), 0.0))
        for k in range(n_features):
            removed[pair, k] *= shrink
    smaller = inverse.copy()
    for k in range(n_features):
        for pair in range(n_pairs):
            subtract(smaller[k], removed[pair, k], removed[pair])
    step, residual = np.empty(n_features), np.zeros(n_features)
    for pair in range(n_pairs):
        surprise = 1.0 / (1.0 + math.exp(dot(weights, differences[pair])))
        subtract(residual, -surprise, differences[pair])
    for k in range(n_features):
        step[k] = dot(smaller[k], residual)
    return step, smaller
