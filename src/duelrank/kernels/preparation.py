"""Preparing features: which columns never vary, and min-max scaling within each query."""

from __future__ import annotations

from typing import Any

import numpy as np

from duelrank.compiling import kernel


@kernel
def mark_varying(features: Any, reference: Any, varying: Any) -> None:
    """Set ``varying`` to True for every column in which some row differs from the reference row."""
    for row in range(features.shape[0]):
        for column in range(features.shape[1]):
            varying[column] |= features[row, column] != reference[column]


@kernel
def scale_queries(features: Any, offsets: Any, columns: Any, scaled: Any) -> None:
    """Scale each feature to [0, 1] within each query; one that is constant within a query becomes 0.

    Parameters
    ----------
    features
        (n_documents, n_features); query i owns the rows offsets[i] to offsets[i + 1].
    columns
        (n_kept,) which features to keep.
    scaled
        (n_documents, n_kept), filled.
    """
    lowest = np.empty(columns.shape[0])
    highest = np.empty(columns.shape[0])
    for query in range(offsets.shape[0] - 1):
        start, stop = offsets[query], offsets[query + 1]
        for kept in range(columns.shape[0]):
            lowest[kept] = highest[kept] = features[start, columns[kept]] if start < stop else 0.0
        for row in range(start + 1, stop):
            for kept in range(columns.shape[0]):
                value = features[row, columns[kept]]
                lowest[kept] = min(lowest[kept], value)
                highest[kept] = max(highest[kept], value)
        for row in range(start, stop):
            for kept in range(columns.shape[0]):
                scaled[row, kept] = _within(features[row, columns[kept]], lowest[kept], highest[kept])


@kernel
def scale_query(features: Any) -> Any:
    """Scale each feature to [0, 1] among the documents of one query; one that is constant becomes 0.

    The same numbers as those of `scale_queries`, whole rows at a time.
    """
    n_documents, n_columns = features.shape
    low, high = features[0].copy(), features[0].copy()
    for row in range(1, n_documents):
        for column in range(n_columns):
            low[column] = min(low[column], features[row, column])
            high[column] = max(high[column], features[row, column])
    width, too_wide = np.empty(n_columns), False
    for column in range(n_columns):
        width[column] = high[column] - low[column]
        too_wide |= width[column] > 1.7976931348623157e308
        width[column] = 1.0 if width[column] == 0.0 else width[column]
    scaled = np.empty(features.shape)
    for row in range(n_documents):
        for column in range(n_columns):
            scaled[row, column] = (features[row, column] - low[column]) / width[column]
    if too_wide:
        for row in range(n_documents):
            for column in range(n_columns):
                scaled[row, column] = _within(features[row, column], low[column], high[column])
    return scaled


@kernel(inline="always")
def _within(value: Any, low: Any, high: Any) -> Any:
    if low == high:
        return 0.0
    if high - low <= 1.7976931348623157e308:
        return (value - low) / (high - low)
    # The range itself is beyond the largest float (a stand-in for a missing value, say), but half of it is not.
    return (0.5 * value - 0.5 * low) / (0.5 * high - 0.5 * low)
