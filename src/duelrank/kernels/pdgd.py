"""Kernels of PDGD: lists from the Plackett-Luce model of a linear ranker, and gradients from pairs of documents.

Reference: Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018).
"""

from __future__ import annotations

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Stream
from duelrank.kernels.elementary import exp, log, log1p, log_unchecked
from duelrank.kernels.inference import last_click
from duelrank.kernels.projection import dot, subtract
from duelrank.kernels.random import uniform
from duelrank.kernels.ranking import add_boosts, best_first, scores


@kernel
def draw(weights: Floats, features: Floats, boosts: Floats, length: int, stream: Stream) -> tuple[Ints, Floats]:
    """Draw a list, each position from the softmax over the documents not yet shown; return it with the scores of all documents.

    Sorting the scores plus Gumbel noise gives the same distribution as drawing position by position, without an exponential of a
    score, which could overflow or vanish.
    """
    table = scores(weights.copy().reshape(1, -1), features)
    add_boosts(table, boosts)
    scored = table[0]
    keys = np.empty(scored.shape[0])
    for document in range(scored.shape[0]):
        keys[document] = 1.0 - uniform(stream)
    for document in range(scored.shape[0]):
        keys[document] = scored[document] - log_unchecked(-log_unchecked(keys[document]))
    return best_first(keys)[:length].copy(), scored


@kernel
def _log_add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b)); one of them may be −inf."""
    return max(a, b) + log1p(exp(min(a, b) - max(a, b)))


@kernel
def _log_masses(scored: Floats, ranking: Ints) -> Floats:
    """Return log Σ exp(score) over the documents not yet shown at each position; the last entry is of those never shown.

    The sum starts at the end: subtraction from the total would cancel if one document has nearly all of the mass.
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
    """Return ρ = P(list with two positions swapped) / (P(list) + P(list with them swapped)).

    The two products differ only in the remaining masses from below the upper position down to the lower one.
    """
    gap = 0.0  # log P(list) − log P(swapped list)
    # In the swapped list, the upper document remains at the lower position, and the lower one was shown.
    swapped = _log_add(masses[lower + 1], scored[ranking[upper]])
    for position in range(lower, upper, -1):
        gap += swapped - masses[position]
        swapped = _log_add(swapped, scored[ranking[position - 1]])
    return 1.0 / (1.0 + exp(gap))


@kernel
def _scores_now(weights: Floats, features: Floats, boosts: Floats, ranking: Ints) -> Floats:
    """Return the score of each shown document, with its boost if there are any."""
    now = np.empty(ranking.shape[0])
    for position in range(ranking.shape[0]):
        now[position] = dot(weights, features[ranking[position]])
        if boosts.shape[0] > 0:
            now[position] += boosts[ranking[position]]
    return now


@kernel
def pair_gradient(
    weights: Floats, features: Floats, boosts: Floats, scored: Floats, ranking: Ints, gains: Floats
) -> Floats:
    """Return Σ (g_i − g_j) ρ ∇P(i ≻ j) over the pairs of a larger gain g_i and a smaller one, down to one below the last click.

    ρ is computed from the scores with which the list was drawn, ∇ at the given weights, which may have changed since. Every pair
    adds a multiple of the difference of its documents, so coefficients are summed per position, then the rows once.
    """
    gradient = np.zeros(features.shape[1])
    last = last_click(gains > 0.0)
    if last == 0:
        return gradient
    depth = min(last + 1, ranking.shape[0])
    now, coefficients = _scores_now(weights, features, boosts, ranking[:depth]), np.zeros(depth)
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
def skip_gradient(
    weights: Floats, features: Floats, boosts: Floats, ranking: Ints, gains: Floats, seen: Floats
) -> Floats:
    """Return ¼ Σ (g_i − g_j) seen_j ∇ log P(i ≻ j) over all pairs of a larger gain g_i and a smaller one, for any list.

    With the factor ¼, a pair that was certainly seen counts as much at zero weights as in `pair_gradient`.
    """
    gradient = np.zeros(features.shape[1])
    length = ranking.shape[0]
    now, coefficients = _scores_now(weights, features, boosts, ranking), np.zeros(length)
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
