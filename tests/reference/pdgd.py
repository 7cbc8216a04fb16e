"""Reference versions of `duelrank.kernels.pdgd`: the formulas of the paper, with the probability of each list."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.kernels import Floats, Ints
from duelrank.kernels.random import uniform


def draw(weights: Floats, features: Floats, boosts: Floats, length: int, stream: Any) -> tuple[Ints, Floats]:
    """Draw a list in the order of exponential times with rates exp(score)."""
    scored = _boosted(weights, features, boosts)
    with np.errstate(divide="ignore"):
        late = np.log(-np.log1p([-uniform(stream) for _ in scored]))
    return np.argsort(late - scored, kind="stable")[:length], scored


def _boosted(weights: Floats, features: Floats, boosts: Floats) -> Floats:
    return np.asarray(features @ weights + boosts if len(boosts) else features @ weights)


def _log_chance(scored: Floats, ranking: Ints) -> float:
    """Return log P(list): at each position the softmax over the documents not shown above."""
    total = 0.0
    for position, document in enumerate(ranking):
        left = np.delete(scored, ranking[:position])
        total += scored[document] - np.logaddexp.reduce(left)
    return total


def pair_gradient(
    weights: Floats, features: Floats, boosts: Floats, scored: Floats, ranking: Ints, gains: Floats
) -> Floats:
    """Return Σ (g_i − g_j) ρ e^{f_i} e^{f_j} / (e^{f_i} + e^{f_j})² (x_i − x_j) over i and examined j of less gain."""
    gradient, now = np.zeros(features.shape[1]), _boosted(weights, features, boosts)[ranking]
    depth = int(np.flatnonzero(gains)[-1]) + 2 if np.any(gains) else 0
    for i in np.flatnonzero(gains):
        for j in np.flatnonzero(gains[:depth] < gains[i]):
            swapped = ranking.copy()
            swapped[i], swapped[j] = ranking[j], ranking[i]
            share = _sigmoid(_log_chance(scored, swapped) - _log_chance(scored, ranking))
            difference = features[ranking[i]] - features[ranking[j]]
            slope = _sigmoid(now[i] - now[j]) * _sigmoid(now[j] - now[i])
            gradient += (gains[i] - gains[j]) * share * slope * difference
    return gradient


def skip_gradient(
    weights: Floats, features: Floats, boosts: Floats, ranking: Ints, gains: Floats, seen: Floats
) -> Floats:
    """Return ¼ Σ (g_i − g_j) seen_j e^{f_j} / (e^{f_i} + e^{f_j}) (x_i − x_j) over i and j of less gain."""
    gradient, now = np.zeros(features.shape[1]), _boosted(weights, features, boosts)[ranking]
    for i in np.flatnonzero(gains):
        for j in np.flatnonzero(gains < gains[i]):
            difference = features[ranking[i]] - features[ranking[j]]
            gradient += 0.25 * (gains[i] - gains[j]) * seen[j] * _sigmoid(now[j] - now[i]) * difference
    return gradient


def _sigmoid(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(1.0 / (1.0 + np.exp(-x)))
