"""Slow twins of `duelrank.kernels.contested_pairs`."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray


def credit(ranks: NDArray[np.int64], gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Go through all ordered pairs of positions; the first of a pair has gained more."""
    sums = np.zeros(len(ranks))
    clicked = np.flatnonzero(gains > 0.0)
    depth = clicked[-1] + 2 if clicked.size else 0
    for better, worse in permutations(range(min(depth, gains.size)), 2):
        if gains[better] > gains[worse]:
            agree, contradict = ranks[:, better] < ranks[:, worse], ranks[:, worse] < ranks[:, better]
            other_way = contradict if better < worse else agree
            sums += (gains[better] - gains[worse]) * other_way.mean() * agree
    return sums
