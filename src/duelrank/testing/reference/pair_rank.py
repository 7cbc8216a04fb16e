"""Slow twins of `duelrank.kernels.pair_rank`: every pair looked at, every inverse computed anew."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.random import permutation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _chance(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def _certain(weights: Floats, inverse: Floats, features: Floats, width: float) -> NDArray[np.bool_]:
    """Whether each document (row) is certainly better than each other one (column)."""
    x = features[:, None] - features[None, :]
    norms = np.sqrt(np.maximum(np.sum((x @ inverse) * x, axis=2), 0.0))
    return np.asarray(_chance(x @ weights) - width * norms > 0.5)


def shuffled_blocks(weights: Floats, inverse: Floats, features: Floats, width: float, length: int, stream: Any) -> Ints:
    """Cut the ranking wherever every document above is certain against every one below, and shuffle between cuts."""
    n = len(features)
    shuffled = permutation(stream, n)
    order = shuffled[np.argsort(-(features @ weights)[shuffled], kind="stable")]
    certain, start, ranking = _certain(weights, inverse, features[order], width), 0, np.empty(0, np.int64)
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


def newton_step(
    weights: Floats, inverse: Floats, features: Floats, ranking: Ints, pairs: Ints
) -> tuple[Floats, Floats]:
    """Add the pairs to M itself, and invert it."""
    x = features[ranking[pairs[:, 0]]] - features[ranking[pairs[:, 1]]]
    smaller: Floats = np.asarray(np.linalg.inv(np.linalg.inv(inverse) + x.T @ x), np.float64)
    return smaller @ (x.T @ (1.0 - _chance(x @ weights))), smaller
