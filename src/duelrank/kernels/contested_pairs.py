"""Credit by the pairs that clicks decide, each by how contested its order was."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.inference import last_click


@kernel
def credit(ranks: NDArray[np.int64], gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ (g_i − g_j) ρ over the pairs of a larger gain g_i and a smaller one that a ranker has in this order.

    Pairs go down to one below the last click. ρ is the share of rankers that have the pair in the other order than the list has.
    """
    n_rankers, length = ranks.shape
    sums = np.zeros(n_rankers)
    depth = min(last_click(gains > 0.0) + 1, length)
    for upper in range(depth):
        for lower in range(upper + 1, depth):
            if gains[upper] != gains[lower]:
                n_against = 0
                for i in range(n_rankers):
                    n_against += ranks[i, lower] < ranks[i, upper]
                better, worse = (upper, lower) if gains[upper] > gains[lower] else (lower, upper)
                points = (gains[better] - gains[worse]) * (n_against / n_rankers)
                for i in range(n_rankers):
                    if ranks[i, better] < ranks[i, worse]:
                        sums[i] += points
    return sums
