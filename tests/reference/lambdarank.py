"""Reference versions of `duelrank.kernels.lambdarank`."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import exp
from typing import Any

import numpy as np
from tests.reference.metrics import ndcg

from duelrank.kernels import Floats, Ints


def lambdas(scored: Floats, labels: Any, sigma: float, cutoff: int) -> Floats:
    """Return the derivative of the cost of a query by each score, from the nDCG with every pair swapped."""
    order = np.argsort(-scored, kind="stable")
    slopes = np.zeros(len(scored))
    for upper, lower in combinations(range(len(order)), 2):
        swapped = order.copy()
        swapped[[upper, lower]] = order[[lower, upper]]
        delta = abs(ndcg(labels[order], labels, cutoff, True) - ndcg(labels[swapped], labels, cutoff, True))
        better, worse = (
            order[[upper, lower]] if labels[order[upper]] > labels[order[lower]] else swapped[[upper, lower]]
        )
        if labels[better] > labels[worse]:
            slope = -sigma / (1.0 + exp(min(sigma * (scored[better] - scored[worse]), 700.0))) * delta
            slopes[better] += slope
            slopes[worse] -= slope
    return slopes


def gradient(weights: Floats, features: Floats, labels: Any, offsets: Ints, sigma: float, cutoff: int) -> Floats:
    """Return the mean of Σ λ_i x_i over the queries with two different labels."""
    found = [
        lambdas(features[start:stop] @ weights, labels[start:stop], sigma, cutoff) @ features[start:stop]
        for start, stop in pairwise(offsets)
        if len(set(labels[start:stop])) > 1
    ]
    return np.mean(found, axis=0) if found else np.zeros(len(weights))


def adam_step(weights: Floats, moments: Floats, step: int, slope: Floats, rate: float) -> None:
    """Make one step of Adam."""
    moments[0] = 0.9 * moments[0] + 0.1 * slope
    moments[1] = 0.999 * moments[1] + 0.001 * slope**2
    weights -= rate * (moments[0] / (1 - 0.9**step)) / (np.sqrt(moments[1] / (1 - 0.999**step)) + 1e-8)


def descend(
    weights: Floats,
    moments: Floats,
    step: int,
    features: Floats,
    labels: Any,
    offsets: Ints,
    sigma: float,
    cutoff: int,
    order: Ints,
    batch: int,
    rate: float,
) -> int:
    """Visit the queries in an order, with one step of Adam per batch."""
    rows = [range(offsets[query], offsets[query + 1]) for query in order]
    varied = [query for query in rows if len(set(labels[query])) > 1]
    for first in range(0, len(varied), batch):
        chosen = varied[first : first + batch]
        picked, ends = np.concatenate(chosen), np.cumsum([0, *map(len, chosen)])
        step += 1
        adam_step(
            weights, moments, step, gradient(weights, features[picked], labels[picked], ends, sigma, cutoff), rate
        )
    return step
