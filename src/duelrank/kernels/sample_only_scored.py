"""Sample-only scored multileaving: rankers are scored by how they order what was shown, and nothing else.

Reference: Brost, Cox, Seldin and Lioma (SIGIR 2016).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import power
from duelrank.kernels.leaving import MISSING


@kernel
def credit(ranks: NDArray[np.int64], gains: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """Σ gain/r^τ over the clicks, r from 1 the rank of the clicked document among the shown ones."""
    n_rankers, length = ranks.shape
    sums = np.zeros(n_rankers)
    for position in range(length):
        if gains[position] > 0.0:
            for i in range(n_rankers):
                if ranks[i, position] < MISSING:
                    rank = 1.0
                    for other in range(length):
                        rank += ranks[i, other] < ranks[i, position]
                    sums[i] += gains[position] * power(rank, -tau)
    return sums
