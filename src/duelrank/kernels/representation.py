"""Turn the features of documents into the columns that an algorithm weighs: ramps, steps, shares and ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import below, uniform

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NARROWEST = 1e-300  # a piece that is narrower has no slope


@kernel
def _slopes(knots: Floats) -> Floats:
    """1 / width of each piece; 0 where it has no width."""
    n_features, n_pieces = knots.shape[0], knots.shape[1] - 1
    slopes = np.empty((n_features, n_pieces))
    for feature in range(n_features):
        for piece in range(n_pieces):
            width = knots[feature, piece + 1] - knots[feature, piece]
            slopes[feature, piece] = 1.0 / width if width > NARROWEST else 0.0
    return slopes


@kernel(inline="always")
def _ramp(value: float, start: float, slope: float) -> float:
    height = (value - start) * slope if slope > 0.0 else 0.0
    return min(max(height, 0.0), 1.0)


@kernel
def ramps(features: Floats, knots: Floats) -> Floats:
    """Climb from 0 to 1 over each piece between two knots: (n_documents, n_features × n_pieces), feature after feature."""
    n_documents, n_features = features.shape
    n_pieces = knots.shape[1] - 1
    slopes = _slopes(knots)
    columns = np.empty((n_documents, n_features * n_pieces))
    for document in range(n_documents):
        for feature in range(n_features):
            value = features[document, feature]
            for piece in range(n_pieces):
                height = _ramp(value, knots[feature, piece], slopes[feature, piece])
                columns[document, feature * n_pieces + piece] = height
    return columns


@kernel
def line_and_ramps(features: Floats, knots: Floats, bend: float) -> Floats:
    """Climb from 0 to 1 from the first knot to the last, and, lower, over each piece: (n_documents, n_features × (1 + n_pieces)).

    With a single piece the line is the only column of each feature.
    """
    n_documents, n_features = features.shape
    last = knots.shape[1] - 1
    n_pieces = last if last > 1 else 0
    ends = np.empty((n_features, 2))
    for feature in range(n_features):
        ends[feature, 0], ends[feature, 1] = knots[feature, 0], knots[feature, last]
    lines, slopes = _slopes(ends), _slopes(knots)
    columns = np.empty((n_documents, n_features * (1 + n_pieces)))
    for document in range(n_documents):
        for feature in range(n_features):
            value, first = features[document, feature], feature * (1 + n_pieces)
            columns[document, first] = _ramp(value, knots[feature, 0], lines[feature, 0])
            for piece in range(n_pieces):
                height = _ramp(value, knots[feature, piece], slopes[feature, piece])
                columns[document, first + 1 + piece] = bend * height
    return columns


@kernel
def steps(features: Floats, knots: Floats) -> Floats:
    """Step from 0 to 1 behind each inner knot: (n_documents, n_features × (n_knots − 2)), feature after feature."""
    n_documents, n_features = features.shape
    n_steps = knots.shape[1] - 2
    columns = np.empty((n_documents, n_features * n_steps))
    for document in range(n_documents):
        for feature in range(n_features):
            for step in range(n_steps):
                above = features[document, feature] > knots[feature, step + 1]
                columns[document, feature * n_steps + step] = 1.0 if above else 0.0
    return columns


@kernel
def shares(features: Floats, knots: Floats) -> Floats:
    """Share of the distribution below each value, by interpolation between its quantiles; in the middle of equal ones."""
    n_documents, n_features = features.shape
    last = knots.shape[1] - 1
    columns = np.empty((n_documents, n_features))
    for document in range(n_documents):
        for feature in range(n_features):
            value, quantiles = features[document, feature], knots[feature]
            below = np.searchsorted(quantiles, value, "left")
            within = np.searchsorted(quantiles, value, "right")
            if below < within:
                place = 0.5 * (below + within - 1)
            elif below == 0 or below > last:
                place = min(1.0 * below, 1.0 * last)
            else:
                left, right = quantiles[below - 1], quantiles[below]
                place = below - 1 + (0.5 * value - 0.5 * left) / (0.5 * right - 0.5 * left)
            columns[document, feature] = place / last
    return columns


@kernel
def query_ranks(features: Floats) -> Floats:
    """Rank of each value among the documents, from 0 for the least to 1; equal values share their mean rank."""
    n_documents, n_features = features.shape
    columns = np.zeros((n_documents, n_features))
    if n_documents == 1:
        return columns
    for feature in range(n_features):
        order = np.argsort(features[:, feature])
        first = 0
        while first < n_documents:
            last = first
            while last + 1 < n_documents and features[order[last + 1], feature] == features[order[first], feature]:
                last += 1
            for place in range(first, last + 1):
                columns[order[place], feature] = 0.5 * (first + last) / (n_documents - 1)
            first = last + 1
    return columns


@kernel
def sample_slots(n_seen: int, n_documents: int, size: int, horizon: int, stream: NDArray[np.uint64]) -> Ints:
    """Draw the slot of a sample that each next document takes, −1 for none: as it grows, each seen document is as likely in it.

    From ``horizon`` documents on, later documents are more likely: the sample forgets, at the rate that it has reached.
    """
    slots = np.empty(n_documents, np.int64)
    for document in range(n_documents):
        n_seen += 1
        if n_seen <= size:
            slots[document] = n_seen - 1
        elif uniform(stream) * min(n_seen, horizon) < size:
            slots[document] = below(stream, size)
        else:
            slots[document] = -1
    return slots
