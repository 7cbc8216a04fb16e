"""Reference versions of `duelrank.kernels.thompson_pairs`: one pair after the other, whole matrices, Potter's scalar updates."""

from __future__ import annotations

from collections.abc import Iterator
from math import erfc, exp, sqrt
from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.random import below, normals, permutation


def draw(
    weights: Floats, samples: Floats, width: float, features: Floats, boosts: Floats, length: int, stream: Any
) -> tuple[Ints, Floats]:
    """Sort by the sampled weights and boosts, ties at random; the scores have no boosts."""
    sampled = weights + width * samples[below(stream, len(samples))]
    shuffled, extra = permutation(stream, len(features)), boosts if len(boosts) else np.zeros(len(features))
    ranking = shuffled[np.argsort(-(features @ sampled + extra)[shuffled], kind="stable")][:length]
    return ranking, (features @ weights)[ranking]


def normal_tail(z: float) -> float:
    """Return P(a standard normal number is above z)."""
    return 0.5 * erfc(z / sqrt(2.0))


def _weighted_pairs(
    covariance: Floats,
    rows: Floats,
    boosts: Floats,
    leads: Floats,
    gains: Floats,
    seen: Floats,
    width: float,
    balance: float,
) -> Iterator[tuple[float, Floats, float]]:
    """Yield the weight of each pair, and the differences of its documents and of their boosts."""
    pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if gains[i] > gains[j]]
    total = sum(seen[j] for _, j in pairs)
    for i, j in pairs:
        apart, count = rows[i] - rows[j], (gains[i] - gains[j]) * seen[j]
        if len(leads) and balance > 0.0 and count > 0.0:
            lead = leads[min(i, j)] - leads[max(i, j)]
            deviation = width * sqrt(max(apart @ covariance @ apart, 0.0))
            swapped = 2.0 * normal_tail(lead / deviation) if deviation > 0.0 else float(1 - np.sign(lead))
            count *= swapped**balance
        yield count / total if total > 0.0 else 0.0, apart, boosts[i] - boosts[j] if len(boosts) else 0.0


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
    """Update the square root by each pair; the kernel's differs by a rotation, which has the same covariance."""
    root, gradient = belief.copy(), np.zeros(len(weights))
    for count, apart, extra in _weighted_pairs(belief @ belief.T, rows, boosts, leads, gains, seen, width, balance):
        chance = 1.0 / (1.0 + exp(-float(weights @ apart + extra)))
        gradient += count * (1.0 - chance) * apart
        moved = root.T @ (sqrt(count * chance * (1.0 - chance)) * apart)
        gain = 1.0 / (moved @ moved + 1.0)
        root -= gain / (1.0 + sqrt(gain)) * np.outer(root @ moved, moved)
    return root @ root.T @ gradient, root


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
    """Add the information of each pair to the precision of each weight."""
    precision, gradient = 1.0 / belief**2, np.zeros(len(weights))
    for count, apart, extra in _weighted_pairs(np.diag(belief**2), rows, boosts, leads, gains, seen, width, balance):
        chance = 1.0 / (1.0 + exp(-float(weights @ apart + extra)))
        gradient += count * (1.0 - chance) * apart
        precision += count * chance * (1.0 - chance) * apart**2
    return gradient / precision, 1.0 / np.sqrt(precision)


def deviation_full(belief: Floats, stream: Any) -> Floats:
    """Return S ε."""
    return belief @ normals(stream, 1, belief.shape[1])[0]


def deviation_diagonal(belief: Floats, stream: Any) -> Floats:
    """Return S ε."""
    return belief * normals(stream, 1, len(belief))[0]


def widen_full(belief: Floats, factor: float, limit: float) -> tuple[Floats, Floats]:
    """Scale all rows, but none beyond the limit."""
    lengths = np.sqrt((belief**2).sum(axis=1))
    deviations = np.minimum(factor * lengths, limit)
    scale = np.where(lengths > 0.0, deviations / np.where(lengths > 0.0, lengths, 1.0), factor)
    return belief * scale[:, None], deviations


def widen_diagonal(belief: Floats, factor: float, limit: float) -> tuple[Floats, Floats]:
    """Scale all deviations, but none beyond the limit."""
    wider = np.minimum(factor * belief, limit)
    return wider, wider
