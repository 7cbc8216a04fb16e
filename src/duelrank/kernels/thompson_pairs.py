"""Kernels of Thompson sampling on pairs: lists of sampled weights, and a belief about the weights that pairs of documents narrow.

The belief is a normal distribution of the weights with covariance S Sᵀ. S is a square root with one row per weight; of a diagonal
belief only the diagonal is kept. All sums over pairs of a list are in tables of its documents: F = X S has a row for each document
in X, so F Fᵀ has the covariances of their scores.
"""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Stream
from duelrank.kernels.elementary import exp, power
from duelrank.kernels.projection import dot, subtract
from duelrank.kernels.random import below, normals, permutation
from duelrank.kernels.ranking import add_boosts, scores, sorted_rows

_ROOT_HALF = 0.7071067811865476
_TWO_BY_ROOT_PI = 1.1283791670955126


@kernel
def draw(
    weights: Floats, samples: Floats, width: float, features: Floats, boosts: Floats, length: int, stream: Stream
) -> tuple[Ints, Floats]:
    """Rank by the weights plus ``width`` times a random one of the samples; return the list and its scores by the weights alone.

    These scores have no boosts: with large boosts, hardly any pair could have been shown the other way round, so that the weights
    would learn from few of them.
    """
    n_documents, n_features = features.shape
    rankers, deviation = np.empty((2, n_features)), samples[below(stream, samples.shape[0])]
    for k in range(n_features):
        rankers[0, k] = weights[k]
        rankers[1, k] = weights[k] + width * deviation[k]
    table = scores(rankers, features)
    add_boosts(table[1:], boosts)
    ranking = sorted_rows(table[1:], permutation(stream, n_documents))[0, :length].copy()
    return ranking, table[0][ranking]


@kernel
def normal_tail(z: float) -> float:
    """Return P(a standard normal number is above z): a series near 0, a continued fraction beyond."""
    x = abs(z) * _ROOT_HALF
    bell = exp(-x * x)
    if x < 2.5:
        term, total, n = x, x, 0
        while term > 1e-17 * total:
            n += 1
            term *= 2.0 * x * x / (2.0 * n + 1.0)
            total += term
        upper = 0.5 * (1.0 - _TWO_BY_ROOT_PI * bell * total)
    else:
        below_line = x
        for n in range(40, 0, -1):
            below_line = x + 0.5 * n / below_line
        upper = 0.25 * _TWO_BY_ROOT_PI * bell / below_line
    return upper if z >= 0.0 else 1.0 - upper


@kernel
def _swapped(lead: float, deviation: float) -> float:
    """Return twice the chance that a sample puts two documents the other way round."""
    if deviation > 0.0:
        return 2.0 * normal_tail(lead / deviation)
    return 1.0 if lead == 0.0 else (0.0 if lead > 0.0 else 2.0)


@kernel
def _pair_tables(
    now: Floats, leads: Floats, covariances: Floats, gains: Floats, seen: Floats, width: float, balance: float
) -> tuple[Floats, Floats]:
    """Return the coefficient of each document in the gradient, and the Laplacian of the pairs in the information.

    A pair of a larger gain i and a smaller one j counts (g_i − g_j) · seen_j · ρ^balance, relative to the sum of seen_j over all
    pairs. Without leads, for lists of other systems, ρ is 1.
    """
    n = now.shape[0]
    slopes, laplacian, total = np.zeros(n), np.zeros((n, n)), 0.0
    for i in range(n):
        for j in range(n):
            if gains[i] <= gains[j]:
                continue
            total += seen[j]
            count = (gains[i] - gains[j]) * seen[j]
            if leads.shape[0] > 0 and balance > 0.0 and count > 0.0:
                spread = max(covariances[i, i] + covariances[j, j] - 2.0 * covariances[i, j], 0.0)
                lead = leads[i] - leads[j] if i < j else leads[j] - leads[i]
                count *= power(_swapped(lead, width * math.sqrt(spread)), balance)
            decay = exp(-abs(now[i] - now[j]))
            wrong = (decay if now[i] > now[j] else 1.0) / (1.0 + decay)
            bend = count * decay / (1.0 + decay) ** 2
            slopes[i] += count * wrong
            slopes[j] -= count * wrong
            laplacian[i, i] += bend
            laplacian[j, j] += bend
            laplacian[i, j] -= bend
            laplacian[j, i] -= bend
    if total > 0.0:
        slopes /= total
        laplacian /= total
    return slopes, laplacian


@kernel
def _lower_factor(matrix: Floats) -> Floats:
    """Return the lower Cholesky factor; rows that depend on earlier ones within rounding get zeros on the diagonal."""
    n = matrix.shape[0]
    factor = np.zeros((n, n))
    for j in range(n):
        rest = matrix[j, j] - dot(factor[j, :j], factor[j, :j])
        if rest <= 1e-12 * matrix[j, j]:
            continue
        factor[j, j] = math.sqrt(rest)
        for i in range(j + 1, n):
            factor[i, j] = (matrix[i, j] - dot(factor[i, :j], factor[j, :j])) / factor[j, j]
    return factor


@kernel
def _product(one: Floats, other: Floats) -> Floats:
    """Return the product of two small matrices."""
    return scores(one, np.ascontiguousarray(other.T))


@kernel
def _inverse_of_lower(factor: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix with a diagonal above 0."""
    n = factor.shape[0]
    inverse = np.zeros((n, n))
    for j in range(n):
        inverse[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * inverse[k, j]
            inverse[i, j] = -total / factor[i, i]
    return inverse


@kernel
def _shrinking(laplacian: Floats, covariances: Floats) -> Floats:
    """Return A, with which S (I − Fᵀ A F) is a square root of the covariance after the information Xᵀ L X.

    With L = C Cᵀ and I + Cᵀ F Fᵀ C = R Rᵀ, A = C R⁻ᵀ (R + I)⁻¹ Cᵀ: Potter's update for several measurements at once (Andrews 1968).
    """
    n = laplacian.shape[0]
    factor = _lower_factor(laplacian)
    across = np.ascontiguousarray(factor.T)
    inner = _product(_product(across, covariances), factor)
    for i in range(n):
        inner[i, i] += 1.0
    root = _lower_factor(inner)
    outer = np.ascontiguousarray(_inverse_of_lower(root).T)
    for i in range(n):
        root[i, i] += 1.0
    return _product(_product(factor, _product(outer, _inverse_of_lower(root))), across)


@kernel
def _add_five(total: Floats, factors: Floats, rows: Floats, first: int) -> None:
    """Add five rows from ``first`` on, times their factors, in place: sums are loaded and stored once for five rows."""
    a, b, c, d, e = factors[first], factors[first + 1], factors[first + 2], factors[first + 3], factors[first + 4]
    for k in range(total.shape[0]):
        two, others = a * rows[first, k] + b * rows[first + 1, k], c * rows[first + 2, k] + d * rows[first + 3, k]
        total[k] += (two + others) + e * rows[first + 4, k]


@kernel
def _add_products(totals: Floats, factors: Floats, rows: Floats) -> None:
    """Add the product of factors, a row for each total, and rows to the totals, in place."""
    n_rows = rows.shape[0]
    for first in range(0, n_rows - 4, 5):
        for i in range(totals.shape[0]):
            _add_five(totals[i], factors[i], rows, first)
    for last in range(n_rows - n_rows % 5, n_rows):
        for i in range(totals.shape[0]):
            subtract(totals[i], -factors[i, last], rows[last])


@kernel
def learn_full(
    weights: Floats,
    belief: Floats,
    rows: Floats,
    boosts: Floats,
    leads: Floats,
    gains: Floats,
    seen: Floats,
    width: float,
    balance: float,
) -> tuple[Floats, Floats]:
    """Return the step of the weights, S Sᵀ g with the new S, and the new S.

    With F = X S and T = S Fᵀ, the new S is S − T A F, and the step is T y with y = (I − A F Fᵀ)(I − Aᵀ F Fᵀ) g, where g has a
    coefficient for each document.
    """
    spread, smaller = np.zeros((rows.shape[0], belief.shape[1])), belief.copy()
    _add_products(spread, rows, belief)
    covariances = scores(spread, spread)
    now = scores(weights.copy().reshape(1, -1), rows)
    add_boosts(now, boosts)
    slopes, laplacian = _pair_tables(now[0], leads, covariances, gains, seen, width, balance)
    shrink = _shrinking(laplacian, covariances)
    flipped = np.ascontiguousarray(shrink.T)
    for table in (flipped, shrink):
        slopes = slopes - scores(scores(slopes.reshape(1, -1), covariances), table)[0]
    along = scores(belief, spread)
    change = -scores(along, flipped)
    for k in range(belief.shape[0]):  # row by row, because S is larger than a processor's nearest memory
        _add_products(smaller[k : k + 1], change[k : k + 1], spread)
    return scores(slopes.reshape(1, -1), along)[0], smaller


@kernel
def learn_diagonal(
    weights: Floats,
    belief: Floats,
    rows: Floats,
    boosts: Floats,
    leads: Floats,
    gains: Floats,
    seen: Floats,
    width: float,
    balance: float,
) -> tuple[Floats, Floats]:
    """Return the step of the weights and the new deviations; information between different weights is ignored."""
    n, n_features = rows.shape
    spread = np.empty(rows.shape)
    for i in range(n):
        for k in range(n_features):
            spread[i, k] = rows[i, k] * belief[k]
    covariances = scores(spread, spread)
    now = scores(weights.copy().reshape(1, -1), rows)
    add_boosts(now, boosts)
    slopes, laplacian = _pair_tables(now[0], leads, covariances, gains, seen, width, balance)
    information = np.zeros(n_features)
    differences = _product(np.ascontiguousarray(_lower_factor(laplacian).T), spread)
    for i in range(n):
        for k in range(n_features):
            information[k] += differences[i, k] * differences[i, k]
    step, smaller = np.zeros(n_features), np.empty(n_features)
    for i in range(n):
        subtract(step, -slopes[i], rows[i])
    for k in range(n_features):
        smaller[k] = belief[k] / math.sqrt(1.0 + information[k])
        step[k] *= smaller[k] * smaller[k]
    return step, smaller


@kernel
def deviation_full(belief: Floats, stream: Stream) -> Floats:
    """Draw S ε with standard normal ε: a deviation of the weights from their mean."""
    return scores(normals(stream, 1, belief.shape[1]), belief)[0]


@kernel
def deviation_diagonal(belief: Floats, stream: Stream) -> Floats:
    """Draw S ε for a diagonal S."""
    drawn = normals(stream, 1, belief.shape[0])[0]
    for k in range(belief.shape[0]):
        drawn[k] *= belief[k]
    return drawn


@kernel
def widen_full(belief: Floats, factor: float, limit: float) -> tuple[Floats, Floats]:
    """Multiply S by a factor, but no standard deviation beyond the limit; return S and all standard deviations."""
    wider, deviations = np.empty(belief.shape), np.empty(belief.shape[0])
    for k in range(belief.shape[0]):
        length = math.sqrt(dot(belief[k], belief[k]))
        deviations[k] = min(factor * length, limit)
        scale = deviations[k] / length if length > 0.0 else factor
        for i in range(belief.shape[1]):
            wider[k, i] = scale * belief[k, i]
    return wider, deviations


@kernel
def widen_diagonal(belief: Floats, factor: float, limit: float) -> tuple[Floats, Floats]:
    """Multiply the deviations by a factor, but none beyond the limit; return them twice, as `widen_full` does."""
    wider = np.empty(belief.shape[0])
    for k in range(belief.shape[0]):
        wider[k] = min(factor * belief[k], limit)
    return wider, wider.copy()
