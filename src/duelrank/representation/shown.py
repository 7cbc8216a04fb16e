"""What a ranker has learned, to be shown: the curve of each feature, how much it matters, and where the documents are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.representation.base import Curve, Domain, Representation
from duelrank.representation.knots import BEYOND
from duelrank.representation.query_scaled import QueryScaled
from duelrank.types import Memory, Weights, frozen

__all__ = ["ShownCurve", "shown_curves"]

#: Bins of the density of documents.
BINS = 20
#: The axis of a feature is logarithmic when its largest values are so many times its small ones.
DECADES = 20.0


@dataclass(frozen=True, eq=False)
class ShownCurve:
    """The curve of one feature, with what one needs to judge it.

    Parameters
    ----------
    name
        Of the feature.
    curve
        What it adds to the score.
    importance
        How much it moves rankings: the standard deviation of its heights over the documents that were seen; where none are
        remembered, the difference between its highest and its lowest point.
    edges
        (n_bins + 1,) of bins over the axis, even on a logarithmic axis where the values span decades; nothing where no documents
        are remembered.
    shares
        (n_bins,) the share of the seen documents in each bin; the outermost have also what is beyond them.
    domain
        What the curve is a function of: "value", "scaled value", "query range" or "query rank".
    """

    name: str
    curve: Curve
    importance: float
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]
    domain: Domain


def shown_curves(
    representation: Representation, weights: Weights, memory: Memory, names: Sequence[str]
) -> list[ShownCurve]:
    """Return the curves of all features, the most important first.

    Parameters
    ----------
    representation
        What the weights are for; `Raw()` of an algorithm that has none.
    weights
        (n_columns,) of a state.
    memory
        What the representation has learned of the features: in a state's memory, that under "representation".
    names
        Of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import QueryScaled
    >>> for each in shown_curves(QueryScaled(), np.array([0.5, -2.0]), {}, ["bm25", "price"]):
    ...     print(each.name, each.importance, each.curve.heights.tolist(), each.domain)
    price 2.0 [0.0, -2.0] query range
    bm25 0.5 [0.0, 0.5] query range
    """
    sample, knots = memory.get("sample"), memory.get("knots")
    if knots is not None and np.isnan(knots[0, 0]):  # linear until the first knots, in what the sample does not have
        lines = QueryScaled().curves(weights, {})
        found = [_shown(name, line, np.empty(0), "query range") for name, line in zip(names, lines, strict=True)]
    else:
        curves = representation.curves(weights, memory)
        values = [np.empty(0)] * len(curves) if sample is None else np.asarray(sample, np.float64).T
        found = [_shown(*each, representation.domain) for each in zip(names, curves, values, strict=True)]
    return sorted(found, key=lambda each: -each.importance)


def _shown(name: str, curve: Curve, values: NDArray[np.float64], domain: Domain) -> ShownCurve:
    if not len(values):
        nothing = frozen(np.empty(0))
        return ShownCurve(name, curve, float(np.ptp(curve.heights)), nothing, nothing, domain)
    low, high = (0.0, 1.0) if domain.startswith("query") else np.quantile(values, [BEYOND, 1.0 - BEYOND])
    if low == high:  # one bin, for a value that nearly all documents have
        edges, share = np.array([low, np.nextafter(low, np.inf)]), np.ones(1)
        return ShownCurve(name, curve, float(curve.at(values).std()), frozen(edges), frozen(share), domain)
    counts, edges = np.histogram(np.clip(values, low, high), _edges(values, low, high))
    return ShownCurve(name, curve, float(curve.at(values).std()), frozen(edges), frozen(counts / len(values)), domain)


def _edges(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Return even bins; of values with a long tail, bins that are even in asinh, which is a logarithm that knows 0 and signs."""
    sizes, largest = np.abs(values[values != 0.0]), max(abs(low), abs(high))
    small, middle = np.quantile(sizes, [0.1, 0.5]) if len(sizes) else (1.0, 1.0)
    if not low < high or largest < DECADES * small or middle > 0.2 * largest:
        return np.histogram_bin_edges(values, BINS, (low, high))
    edges = small * np.sinh(np.linspace(np.arcsinh(low / small), np.arcsinh(high / small), BINS + 1))
    edges[[0, -1]] = low, high  # not a rounding error beside them
    return np.asarray(edges)
