"""How good a ranker is on a whole split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import ShapeMismatch
from duelrank.kernels.ranking import ranked_labels
from duelrank.metrics.base import Metric
from duelrank.types import Split, Stream, Weights

__all__ = ["evaluate", "per_query"]


def per_query(weights: Weights, split: Split, metric: Metric, stream: Stream) -> NDArray[np.float64]:
    """Rank every query of a split by the weights, ties at random, and measure each list."""
    if weights.shape != (split.n_features,):
        raise ShapeMismatch(f"weights of shape {weights.shape} cannot rank documents with {split.n_features} features")
    ranked = ranked_labels(weights, split.features, split.labels, split.offsets, stream)
    bounds = split.offsets.tolist()
    lists = (ranked[start:stop] for start, stop in pairwise(bounds))
    return np.array([metric.of(labels, labels) for labels in lists])


def evaluate(weights: Weights, split: Split, metric: Metric, stream: Stream) -> float:
    """Return the mean of a metric over the queries of a split; NaN where it has none."""
    values = per_query(weights, split, metric, stream)
    return float(values.mean()) if values.size else float("nan")
