"""Confidence bounds on how attractive each document of one query is, from how often it was seen and clicked.

A model is a (2, n_documents) table: how often each document was seen, and clicked. References: Kveton et al. (ICML 2015); Garivier
and Cappé, "The KL-UCB algorithm for bounded stochastic bandits and beyond" (COLT 2011).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import expm1, log

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def kl_upper(mean: float, radius: float) -> float:
    """Return the largest q from the mean to 1 with KL(mean ‖ q) ≤ radius, the divergence of two coins.

    The divergence is convex in q, so Newton's method from a point above the root never passes it. Two bounds are known to lie
    above: KL ≥ 2(q − mean)² (Pinsker), and what is left of KL without −mean · log q ≥ 0.
    """
    if radius <= 0.0 or mean >= 1.0:
        return mean
    if mean <= 0.0:
        return -expm1(-radius)
    entropy = mean * log(mean) + (1.0 - mean) * log(1.0 - mean)
    q = min(mean + math.sqrt(0.5 * radius), -expm1((entropy - radius) / (1.0 - mean)))
    for _ in range(30):
        if q >= 1.0:
            return 1.0
        excess = entropy - mean * log(q) - (1.0 - mean) * log(1.0 - q) - radius
        step = excess * q * (1.0 - q) / (q - mean)
        if step < 1e-14:
            break
        q -= step
    return q


@kernel
def kl_budget(t: float) -> float:
    """How surprising an estimate may be after t rounds: log t + 3 log log t, and 0 where that is negative."""
    return max(log(t) + 3.0 * log(log(t)), 0.0) if t > 2.0 else 0.0


@kernel
def ucb1(model: Ints, rounds: int) -> Floats:
    """clicks/seen + √(1.5 · log rounds / seen) of each document; infinite where it was never seen."""
    bounds = np.full(model.shape[1], np.inf)
    log_rounds = log(max(rounds, 1))
    for document in range(model.shape[1]):
        seen = model[0, document]
        if seen > 0:
            bounds[document] = model[1, document] / seen + math.sqrt(1.5 * log_rounds / seen)
    return bounds


@kernel
def kl_ucb(model: Ints, rounds: int) -> Floats:
    """Largest q with seen · KL(clicks/seen ‖ q) ≤ log t + 3 log log t, t = rounds + 1; infinite where never seen."""
    bounds = np.full(model.shape[1], np.inf)
    budget = kl_budget(rounds + 1.0)
    for document in range(model.shape[1]):
        seen = model[0, document]
        if seen > 0:
            bounds[document] = kl_upper(model[1, document] / seen, budget / seen)
    return bounds


@kernel
def count(model: Ints, ranking: Ints, clicks: NDArray[np.bool_], examined: int) -> Ints:
    """The model after the first positions of a list were examined and clicked or not."""
    after = model.copy()
    for position in range(examined):
        after[0, ranking[position]] += 1
        after[1, ranking[position]] += clicks[position]
    return after
