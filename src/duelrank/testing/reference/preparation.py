"""The slow twin of `duelrank.kernels.preparation`: whole columns at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from duelrank.types import Features

__all__ = ["mark_varying", "scale_queries", "scale_query"]


def mark_varying(features: Features, reference: NDArray[np.float64], varying: NDArray[np.bool_]) -> None:
    """Set ``varying`` to True for every column in which some row differs from the reference row."""
    varying |= (features != reference).any(axis=0)


def scale_queries(features: Features, offsets: NDArray[np.int64], columns: NDArray[np.int64], scaled: Features) -> None:
    """Scale each feature to [0, 1] within each query; one that is constant within a query becomes 0."""
    for start, stop in pairwise(offsets.tolist()):
        if start == stop:
            continue
        rows = features[start:stop, columns]
        low, high = rows.min(axis=0), rows.max(axis=0)
        with np.errstate(over="ignore"):
            factor = np.where(np.isfinite(high - low), 1.0, 0.5)
        span = factor * high - factor * low
        scaled[start:stop] = np.where(high > low, (factor * rows - factor * low) / np.where(span > 0, span, 1.0), 0.0)


def scale_query(features: Features) -> Features:
    """Scale each feature to [0, 1] among the documents of one query."""
    scaled = np.empty(features.shape)
    scale_queries(features, np.array([0, len(features)]), np.arange(features.shape[1]), scaled)
    return scaled
