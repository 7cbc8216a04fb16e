"""Plackett-Luce lists: draw one from the scores of a linear ranker, and the pairwise gradient of PDGD.

Reference: Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.core.compiling import kernel
from duelrank.kernels.elementary import exp, log, log1p, log_unchecked
from duelrank.kernels.inference import last_click
from duelrank.kernels.projection import dot, subtract
from duelrank.kernels.random import uniform
from duelrank.kernels.ranking import best_first, scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def draw(weights: Floats, features: Floats, length: int, stream: NDArray[np.uint64]) -> tuple[Ints, Floats]:
    """Draw a list: each position from the softmax over the documents not yet shown. Also returns the scores of all documents.

    Document i waits for an exponential time of rate exp(score), and the first ones to arrive are shown: the same distribution as
    position by position (Gumbel's trick), and no exponential of a score is taken, so none can overflow or vanish.
    """
    scored = scores(weights.copy().reshape(1, -1), features)[0]
    keys = np.empty(scored.shape[0])
    for document in range(scored.shape[0]):
        keys[document] = 1.0 - uniform(stream)
    for document in range(scored.shape[0]):
        keys[document] = scored[document] - log_unchecked(-log_unchecked(keys[document]))
    return best_first(keys)[:length].copy(), scored


@kernel
def _log_add(a: float, b: float) -> float:
    """log(exp(a) + exp(b)); one of them may be −inf."""
    return max(a, b) + log1p(exp(min(a, b) - max(a, b)))


@kernel
def _log_masses(scored: Floats, ranking: Ints) -> Floats:
    """Return log Σ exp(score) of what was left to draw from before each position; the last entry is of what was never shown.

    Added up from the end: to subtract from the whole would cancel where one document has nearly all of the mass.
    """
    length = ranking.shape[0]
    masses = np.full(length + 1, -np.inf)
    unshown = np.ones(scored.shape[0], np.bool_)
    for position in range(length):
        unshown[ranking[position]] = False
    highest, total = -np.inf, 0.0
    for document in range(scored.shape[0]):
        if unshown[document]:
            highest = max(highest, scored[document])
    for document in range(scored.shape[0]):
        if unshown[document]:
            total += exp(scored[document] - highest)
    if total > 0.0:
        masses[length] = highest + log(total)
    for position in range(length - 1, -1, -1):
        masses[position] = _log_add(masses[position + 1], scored[ranking[position]])
    return masses


@kernel
def _swapped_share(scored: Floats, ranking: Ints, masses: Floats, upper: int, lower: int) -> float:
    """ρ = P(list with two positions swapped) / (P(list) + P(list with them swapped)).

    Both lists have the same factors but for the masses that were left from below the upper position down to the lower one.
    """
    gap = 0.0  # log P(list) − log P(swapped list)
    swapped = _log_add(
        masses[lower + 1], scored[ranking[upper]]
    )  # the upper document is still there, the lower one is gone
    for position in range(lower, upper, -1):
        gap += swapped - masses[position]
        swapped = _log_add(swapped, scored[ranking[position - 1]])
    return 1.0 / (1.0 + exp(gap))


@kernel
def pair_gradient(weights: Floats, features: Floats, scored: Floats, ranking: Ints, gains: Floats) -> Floats:
    """Σ (g_i − g_j) ρ ∇P(i ≻ j) over the pairs of a larger gain g_i and a smaller one, down to one below the last click.

    ρ belongs to the scores under which the list was drawn; ∇ is taken at the given weights, which may have moved since. Every pair
    adds a multiple of the difference of its documents, so one coefficient per position is summed, then the rows once.
    """
    gradient = np.zeros(features.shape[1])
    last = last_click(gains > 0.0)
    if last == 0:
        return gradient
    depth = min(last + 1, ranking.shape[0])
    now, coefficients = np.empty(depth), np.zeros(depth)
    for position in range(depth):
        now[position] = dot(weights, features[ranking[position]])
    masses = _log_masses(scored, ranking)
    for upper in range(depth):
        for lower in range(upper + 1, depth):
            if gains[upper] != gains[lower]:
                decay = exp(-abs(now[upper] - now[lower]))
                slope = _swapped_share(scored, ranking, masses, upper, lower) * decay / (1.0 + decay) ** 2
                slope *= gains[upper] - gains[lower]
                coefficients[upper] += slope
                coefficients[lower] -= slope
    for position in range(depth):
        subtract(gradient, -coefficients[position], features[ranking[position]])
    return gradient


@kernel
def skip_gradient(weights: Floats, features: Floats, ranking: Ints, gains: Floats, seen: Floats) -> Floats:
    """¼ Σ (g_i − g_j) seen_j ∇ log P(i ≻ j), over all pairs of a larger gain g_i and a smaller one, whoever made the list.

    At zero weights a pair that was surely seen counts as much as in `pair_gradient`, hence the quarter.
    """
    gradient = np.zeros(features.shape[1])
    length = ranking.shape[0]
    now, coefficients = np.empty(length), np.zeros(length)
    for position in range(length):
        now[position] = dot(weights, features[ranking[position]])
    for i in range(length):
        for j in range(length):
            if gains[i] > gains[j]:
                gap = now[i] - now[j]
                decay = exp(-abs(gap))
                slope = 0.25 * seen[j] * (decay if gap > 0.0 else 1.0) / (1.0 + decay) * (gains[i] - gains[j])
                coefficients[i] += slope
                coefficients[j] -= slope
    for position in range(length):
        subtract(gradient, -coefficients[position], features[ranking[position]])
    return gradient
