"""Kernels of LambdaRank for a linear ranker: gradient descent on a pairwise cost, with pairs weighted by their effect on nDCG.

The cost of a query is Σ |ΔnDCG@k| · log(1 + exp(−σ (s_i − s_j))) over its pairs with label_i > label_j, where |ΔnDCG@k| of
the current order is treated as a constant. Reference: Burges, "From RankNet to LambdaRank to LambdaMART" (2010).
"""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Labels
from duelrank.kernels.elementary import exp, log2, power, power_of_two
from duelrank.kernels.metrics import ideal_dcg
from duelrank.kernels.projection import dot


@kernel
def _logistic(x: float) -> float:
    """Return 1 / (1 + exp(−x)), without an exponential that could overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + exp(-x))
    small = exp(x)
    return small / (1.0 + small)


@kernel
def _places(scored: Floats, depth: int) -> Ints:
    """Return the position of each document by its score, from 0, ties in order; ``depth`` for all documents below it."""
    n = scored.shape[0]
    places = np.full(n, depth)
    for position in range(depth):
        best = -1
        for i in range(n):
            if places[i] == depth and (best < 0 or scored[i] > scored[best]):
                best = i
        places[best] = position
    return places


@kernel
def lambdas(scored: Floats, labels: Labels, sigma: float, cutoff: int) -> Floats:
    """Return the derivative of the cost of one query by the score of each document; it is negative if the score should rise.

    Documents are placed by their scores, ties in order. Gains are exponential. Pairs with both documents below the cutoff do not
    count, so the time of a query is cutoff · n_documents instead of n_documents².
    """
    n = scored.shape[0]
    slopes = np.zeros(n)
    ideal = ideal_dcg(labels, cutoff, True)
    if ideal == 0.0:
        return slopes
    depth = min(cutoff, n)
    places, discounts = _places(scored, depth), np.zeros(depth + 1)
    for position in range(depth):
        discounts[position] = 1.0 / log2(position + 2.0)
    for i in range(n):
        for j in range(n if places[i] < depth else 0):
            if places[i] < places[j] and labels[i] != labels[j]:
                lost = discounts[places[i]] - discounts[places[j]]
                delta = abs(power_of_two(labels[i]) - power_of_two(labels[j])) * lost / ideal
                sign = 1.0 if labels[i] > labels[j] else -1.0
                pull = sign * sigma * delta * _logistic(sign * sigma * (scored[j] - scored[i]))
                slopes[i] -= pull
                slopes[j] += pull
    return slopes


@kernel
def _varied(labels: Labels) -> bool:
    """Return whether there are two different labels; otherwise there is nothing to order."""
    varied = False
    for label in labels:
        varied |= label != labels[0]
    return varied


@kernel
def _add_query(weights: Floats, features: Floats, labels: Labels, sigma: float, cutoff: int, total: Floats) -> int:
    """Add the gradient of one query to the total; return 1, or 0 if the query has none."""
    if not _varied(labels):
        return 0
    scored = np.empty(features.shape[0])  # `ranking.scores` is for many rankers and takes longer to compile
    for document in range(features.shape[0]):
        scored[document] = dot(features[document], weights)
    slopes = lambdas(scored, labels, sigma, cutoff)
    for document in range(features.shape[0]):
        if slopes[document] != 0.0:
            for k in range(features.shape[1]):
                total[k] += slopes[document] * features[document, k]
    return 1


@kernel
def gradient(weights: Floats, features: Floats, labels: Labels, offsets: Ints, sigma: float, cutoff: int) -> Floats:
    """Return the gradient of the cost by the weights, Σ λ_i x_i, averaged over the queries with two different labels."""
    total, counted = np.zeros(features.shape[1]), 0
    for query in range(offsets.shape[0] - 1):
        start, stop = offsets[query], offsets[query + 1]
        counted += _add_query(weights, features[start:stop], labels[start:stop], sigma, cutoff, total)
    return total / max(counted, 1)


@kernel
def adam_step(weights: Floats, moments: Floats, step: int, slope: Floats, rate: float) -> None:
    """Make one step of Adam (Kingma and Ba, 2015) against a gradient, in place.

    Parameters
    ----------
    moments
        (2, n_features): running means of the gradient and of its square, updated.
    step
        Number of the step, from 1.
    """
    unbias, unbias_square = 1.0 - power(0.9, step), 1.0 - power(0.999, step)
    for k in range(weights.shape[0]):
        moments[0, k] += (1.0 - 0.9) * (slope[k] - moments[0, k])
        moments[1, k] += (1.0 - 0.999) * (slope[k] * slope[k] - moments[1, k])
        weights[k] -= rate * (moments[0, k] / unbias) / (math.sqrt(moments[1, k] / unbias_square) + 1e-8)


@kernel
def descend(
    weights: Floats,
    moments: Floats,
    step: int,
    features: Floats,
    labels: Labels,
    offsets: Ints,
    sigma: float,
    cutoff: int,
    order: Ints,
    batch: int,
    rate: float,
) -> int:
    """Visit the queries in an order, with one step of Adam per batch; return the total number of steps so far.

    A batch has ``batch`` queries with two different labels; the last one of a pass may be smaller.
    """
    total, mean, counted = np.zeros(weights.shape[0]), np.empty(weights.shape[0]), 0
    for visited in range(order.shape[0]):
        start, stop = offsets[order[visited]], offsets[order[visited] + 1]
        counted += _add_query(weights, features[start:stop], labels[start:stop], sigma, cutoff, total)
        if counted == batch or (counted > 0 and visited == order.shape[0] - 1):
            for k in range(total.shape[0]):
                mean[k], total[k] = total[k] / counted, 0.0
            step, counted = step + 1, 0
            adam_step(weights, moments, step, mean, rate)
    return step
