"""Evaluates a ranker on all queries of a split."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import ShapeMismatch
from duelrank.grammar import as_part
from duelrank.kernels.ranking import ranked_labels
from duelrank.metrics.base import Metric
from duelrank.types import Features, Labels, Stream, Weights
from duelrank.validation import explained

__all__ = ["Judged", "evaluate", "per_query"]


class Judged(Protocol):
    """Labelled queries, one after the other, such as a `Split` of a data set."""

    @property
    def features(self) -> Features:
        """(n_documents, n_features) of all queries."""

    @property
    def labels(self) -> Labels:
        """(n_documents,) grades."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(n_queries + 1,): query i owns the rows offsets[i] to offsets[i + 1]."""


def per_query(weights: Weights, split: Judged, metric: Metric | str, stream: Stream) -> NDArray[np.float64]:
    """Rank every query of a split by the weights, with ties at random, and return the metric (or its text) of each list.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import Synthetic
    >>> from duelrank.metrics import per_query
    >>> from duelrank.randomness import stream
    >>> test = Synthetic(n_queries=40, n_features=20).fold(1).test
    >>> per_query(np.ones(20), test, "nDCG@10", stream(1, "ties")).round(2)[:3].tolist()
    [0.74, 0.85, 0.78]
    """
    measure = as_part(metric, Metric)
    n_features = split.features.shape[1]
    if weights.shape != (n_features,):
        raise ShapeMismatch(
            f"weights must have shape ({n_features},) for documents with {n_features} features, got {weights.shape}"
        )
    ranked = ranked_labels(weights, split.features, split.labels, split.offsets, stream)
    bounds = split.offsets.tolist()
    lists = (ranked[start:stop] for start, stop in pairwise(bounds))
    return np.array([measure.of(labels, labels) for labels in lists])


@explained
def evaluate(weights: Weights, split: Judged, metric: Metric | str, stream: Stream) -> float:
    """Return the mean of a metric over the queries of a split; NaN if the split is empty.

    Examples
    --------
    How good are equal weights for all features?

    >>> import numpy as np
    >>> from duelrank import Synthetic, evaluate
    >>> from duelrank.randomness import stream
    >>> test = Synthetic(n_queries=40, n_features=20).fold(1).test
    >>> round(evaluate(np.ones(20), test, "nDCG@10", stream(1, "ties")), 2)
    0.77
    """
    values = per_query(weights, split, metric, stream)
    return float(values.mean()) if values.size else float("nan")
