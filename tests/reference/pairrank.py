"""Reference versions of `duelrank.kernels.pairrank`: all pairs are compared, all inverses computed directly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels import Floats, Ints
from duelrank.kernels.pairrank import LOOSE, NEAR, SWEEPS
from duelrank.kernels.random import permutation


def _chance(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def _certain(scored: Floats, inverse: Floats, features: Floats, width: float) -> NDArray[np.bool_]:
    """Return whether each document (row) is certainly better than each other one (column)."""
    x = features[:, None] - features[None, :]
    norms = np.sqrt(np.maximum(np.sum((x @ inverse) * x, axis=2), 0.0))
    return np.asarray(_chance(scored[:, None] - scored[None, :]) - width * norms > 0.5)


def shuffled_blocks(
    weights: Floats,
    inverse: Floats,
    features: Floats,
    boosts: Floats,
    width: float,
    transitive: bool,
    length: int,
    stream: Any,
) -> Ints:
    """Cut the ranking where every document above is certainly better than every one below, and shuffle between cuts."""
    n, scored = len(features), features @ weights + (boosts if len(boosts) else 0.0)
    shuffled = permutation(stream, n)
    order = shuffled[np.argsort(-scored[shuffled], kind="stable")]
    certain, start, ranking = _certain(scored[order], inverse, features[order], width), 0, np.empty(0, np.int64)
    if transitive:
        for middle in range(n):  # Warshall's algorithm
            certain |= certain[:, [middle]] & certain[[middle]]
    for stop in range(1, n + 1):
        if start < length and certain[:stop, stop:].all():
            ranking = np.append(ranking, order[start:stop][permutation(stream, stop - start)])
            start = stop
    return ranking[:length]


def independent_pairs(clicks: Any, seen: Any, stream: Any) -> Ints:
    """Match clicked positions with seen but unclicked ones."""
    clicked = [position for position, click in enumerate(clicks) if click]
    unclicked = [position for position, click in enumerate(clicks) if seen[position] and not click]
    winners = [clicked[i] for i in permutation(stream, len(clicked))]
    losers = [unclicked[i] for i in permutation(stream, len(unclicked))]
    return np.array(list(zip(winners, losers, strict=False)), np.int64).reshape(-1, 2)


def shrunk_inverse(inverse: Floats, differences: Floats) -> Floats:
    """Add the pairs to M itself, and invert it."""
    return np.asarray(np.linalg.inv(np.linalg.inv(inverse) + differences.T @ differences), np.float64)


def _squares(differences: Floats, factors: Floats) -> Floats:
    return np.asarray((differences.T * factors) @ differences, np.float64)


def expanded(
    weights: Floats, curvature: Floats, target: Floats, differences: Floats, gains: Floats, bounds: Floats
) -> tuple[Floats, Floats]:
    """Replace each bound by gain · P(1 − P), and correct the target so that the slope at the weights is exact."""
    leads = differences @ weights
    second = gains * _chance(leads) * _chance(-leads)
    return curvature + _squares(differences, second - bounds), target + (
        gains * _chance(-leads) + second * leads
    ) @ differences


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
    """Start from the curvature of the other pairs, and add that of the remembered pairs in each sweep."""
    others = curvature - _squares(differences, bounds)
    for _ in range(SWEEPS):
        leads = differences @ weights
        flat = np.abs(leads) < 1e-6
        tight = gains * np.where(flat, 0.25, (_chance(leads) - 0.5) / np.where(flat, 1.0, leads))
        bounds = np.where((tight > LOOSE * bounds) | (bounds > LOOSE * tight), tight, bounds)
        curvature, before = others + _squares(differences, bounds), weights
        pull = target + (gains * _chance(-leads) + bounds * leads) @ differences
        weights = ridge_solution(curvature, ridge, pull, weights, tolerance)
        if np.linalg.norm(weights - before) <= NEAR * np.linalg.norm(weights):
            break
    return weights, curvature, bounds


def ridge_solution(matrix: Floats, ridge: float, target: Floats, start: Floats, tolerance: float) -> Floats:
    """Solve the system directly; the start does not matter."""
    return np.asarray(np.linalg.solve(matrix + ridge * np.eye(len(target)), target), np.float64)
