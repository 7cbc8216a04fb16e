"""Computes the discounted online performance: the quality of the lists that users saw while the ranker was learning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.updates import discounted_sum
from duelrank.validation import explained

__all__ = ["DISCOUNT", "online_performance"]

#: γ of the published tables. The paper's text says 0.995, but with that no sum could pass 200 and the tables go up to 1368.
DISCOUNT = 0.9995


@explained
def online_performance(values: NDArray[np.float64], discount: float = DISCOUNT) -> float:
    """Return Σ_t γ^t · value_t, t from 0, where value_t is the metric of the list shown at t.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import online_performance
    >>> online_performance(np.array([1.0, 0.5, 0.5]), discount=0.5)
    1.375
    """
    return float(discounted_sum(np.ascontiguousarray(values, np.float64), discount))
