"""Kernels of PairRank: lists with certain pairs in order and uncertain pairs shuffled, and a regression in bounded memory.

References: Jia et al., "PairRank: online pairwise learning to rank by divide-and-conquer" (WWW 2021); Jaakkola and Jordan,
"Bayesian parameter estimation via variational methods" (2000), for the bound on the logistic loss.
"""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Flags, Floats, Ints, Stream
from duelrank.kernels.elementary import exp, tanh
from duelrank.kernels.projection import dot, subtract
from duelrank.kernels.random import permutation
from duelrank.kernels.ranking import add_boosts, scores, sorted_rows

LOOSE = 1.5  # largest ratio between the curvature in use and that of the parabola at the current weights
NEAR = 5e-3  # sweeps end when one moves the weights by at most this part of their length
SWEEPS = 20  # maximum number of sweeps of a fit


@kernel
def _certain(lead: float, squared_norm: float, width: float) -> bool:
    """Return whether the lower bound of P(i ≻ j) is above 1/2, from the lead of i in score and |x_i − x_j|² in the norm of M⁻¹."""
    return 1.0 / (1.0 + exp(-lead)) - width * math.sqrt(max(squared_norm, 0.0)) > 0.5


@kernel
def _certainly_above(leads: Floats, rows: Floats, inverse: Floats, width: float, transitive: bool) -> Flags:
    """Return, at (i, j), whether document j is certainly better than document i; rows are sorted by score, so j < i.

    With ``transitive``, a document that is better than a better one is better too, and such a pair is not computed. Each row starts
    with the nearest documents, because most others are certainly above those.
    """
    n = rows.shape[0]
    above, products, norms = np.zeros((n, n), np.bool_), scores(rows, inverse), np.empty(n)
    for i in range(n):
        norms[i] = dot(products[i], rows[i])
        for j in range(i - 1, -1, -1):
            if above[i, j]:
                continue
            squared_norm = norms[i] + norms[j] - 2.0 * dot(products[i], rows[j])
            if _certain(leads[j] - leads[i], squared_norm, width):
                above[i, j] = True
                if transitive:
                    for k in range(j):
                        above[i, k] |= above[j, k]
    return above


@kernel
def _block_starts(above: Flags) -> Flags:
    """Return whether a block starts at each position: if all documents above are certainly better than all others."""
    n = above.shape[0]
    starts, first = np.ones(n, np.bool_), n
    for i in range(n - 1, 0, -1):
        for j in range(min(first, i)):
            if not above[i, j]:
                first = j
                break
        starts[i] = first >= i
    return starts


@kernel
def shuffled_blocks(
    weights: Floats,
    inverse: Floats,
    features: Floats,
    boosts: Floats,
    width: float,
    transitive: bool,
    length: int,
    stream: Stream,
) -> Ints:
    """Rank by score, cut into the smallest blocks without an uncertain pair across a cut, and shuffle each; return the top."""
    n = features.shape[0]
    scored = scores(weights.copy().reshape(1, -1), features)
    add_boosts(scored, boosts)
    order = sorted_rows(scored, permutation(stream, n))[0]
    above = _certainly_above(scored[0][order], features[order], inverse, width, transitive)
    starts, ranking, start = _block_starts(above), np.empty(length, np.int64), 0
    while start < length:
        stop = start + 1
        while stop < n and not starts[stop]:
            stop += 1
        mixed = permutation(stream, stop - start)
        for position in range(start, min(stop, length)):
            ranking[position] = order[start + mixed[position - start]]
        start = stop
    return ranking


@kernel
def independent_pairs(clicks: Flags, seen: Flags, stream: Stream) -> Ints:
    """Match clicked positions with seen but unclicked ones at random, each in at most one pair: (n_pairs, 2)."""
    positions = np.empty((clicks.shape[0], 2), np.int64)  # column 0: clicked positions, column 1: unclicked ones
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
def shrunk_inverse(inverse: Floats, differences: Floats) -> Floats:
    """Return M⁻¹ after x xᵀ was added to M for every row x of the differences.

    By the formula of Sherman and Morrison each pair subtracts r rᵀ, r = M⁻¹x / √(1 + xᵀM⁻¹x). The large matrix is read only twice:
    for M⁻¹x with the old inverse for all pairs, which is then corrected for the pairs before, and for the subtraction of all pairs
    row by row.
    """
    n_pairs, n_features = differences.shape
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
    return smaller


@kernel
def _add_square(matrix: Floats, factor: float, x: Floats) -> None:
    """Add factor · x xᵀ to a matrix, in place."""
    for k in range(x.shape[0]):
        subtract(matrix[k], -factor * x[k], x)


@kernel
def expanded(
    weights: Floats, curvature: Floats, target: Floats, differences: Floats, gains: Floats, bounds: Floats
) -> tuple[Floats, Floats]:
    """Return the curvature A and the target after pairs were replaced by the second-order expansion of their loss at the weights.

    The given curvature contains the pairs with their bounds; the given target does not contain them.
    """
    settled, total = curvature.copy(), target.copy()
    for pair in range(differences.shape[0]):
        x = differences[pair]
        lead = dot(weights, x)
        tilt = tanh(0.5 * lead)  # 2 P − 1
        second = 0.25 * gains[pair] * (1.0 - tilt * tilt)
        _add_square(settled, second - bounds[pair], x)
        subtract(total, -(0.5 * gains[pair] * (1.0 - tilt) + second * lead), x)
    return settled, total


@kernel
def _pull(fit: Floats, curvature: Floats, differences: Floats, gains: Floats, bounds: Floats) -> Floats:
    """Return the contribution of the parabolas that touch the losses at the weights to the target.

    (σ(m) − 1/2) / m (Jaakkola and Jordan) is the least curvature with which such a parabola is nowhere below the loss. A bound that
    is far from it is replaced, also in the curvature; both change in place.
    """
    leads, pull = scores(fit.reshape(1, -1), differences)[0], np.zeros(fit.shape[0])
    for pair in range(leads.shape[0]):
        lead, gain = leads[pair], gains[pair]
        tilt = tanh(0.5 * lead)  # 2 P − 1
        bound = gain * (0.25 if abs(lead) < 1e-6 else 0.5 * tilt / lead)
        if bound > LOOSE * bounds[pair] or bounds[pair] > LOOSE * bound:
            _add_square(curvature, bound - bounds[pair], differences[pair])
            bounds[pair] = bound
        subtract(pull, -(0.5 * gain * (1.0 - tilt) + bounds[pair] * lead), differences[pair])
    return pull


@kernel
def fitted(
    weights: Floats,
    curvature: Floats,
    target: Floats,
    differences: Floats,
    gains: Floats,
    bounds: Floats,
    ridge: float,
    tolerance: float,
) -> tuple[Floats, Floats, Floats]:
    """Fit the weights to remembered pairs and to the target of all others; return the weights, A, and the bounds in A.

    Each sweep replaces the loss of every remembered pair by a parabola that touches it at the current weights, and minimises the
    sum. The curvatures in A are kept while they are near those of the parabolas that are nowhere below the loss: a sweep cannot
    increase the loss if they are at least half as large.
    """
    fit, steep, tight = weights.copy(), curvature.copy(), bounds.copy()
    for _ in range(SWEEPS):
        pull = target + _pull(fit, steep, differences, gains, tight)
        before, fit = fit, ridge_solution(steep, ridge, pull, fit, tolerance)
        subtract(before, 1.0, fit)
        if dot(before, before) <= NEAR * NEAR * dot(fit, fit):
            break
    return fit, steep, tight


@kernel
def ridge_solution(matrix: Floats, ridge: float, target: Floats, start: Floats, tolerance: float) -> Floats:
    """Solve (A + ridge · I) w = target by conjugate gradients from a start, until the residual is below tolerance · |target|."""
    n = target.shape[0]
    solution, residual = start.copy(), target.copy()
    for k in range(n):
        residual[k] -= dot(matrix[k], start) + ridge * start[k]
    direction, image, squared = residual.copy(), np.empty(n), dot(residual, residual)
    enough = tolerance * tolerance * dot(target, target)
    for _ in range(2 * n):
        if squared <= enough:
            break
        for k in range(n):
            image[k] = dot(matrix[k], direction) + ridge * direction[k]
        steepness = dot(direction, image)
        if steepness == 0.0:  # the residual is so small that its square vanishes
            break
        rate = squared / steepness
        subtract(solution, -rate, direction)
        subtract(residual, rate, image)
        before, squared = squared, dot(residual, residual)
        for k in range(n):
            direction[k] = residual[k] + squared / before * direction[k]
    return solution
