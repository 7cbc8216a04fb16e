"""Kernels of representations: the columns of documents (ramps, steps, shares and ranks), and the sample of documents."""

from __future__ import annotations

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Floats, Ints, Stream
from duelrank.kernels.random import below, uniform

NARROWEST = 1e-300  # a narrower piece has slope 0


@kernel
def _climb(
    features: Floats, starts: Floats, stops: Floats, height: float, columns: Floats, first: int, slopes: Floats
) -> None:
    """Fill one column for each feature, from column ``first`` on, which rises from 0 to ``height`` between two knots."""
    n_documents, n_features = features.shape
    for feature in range(n_features):
        width = stops[feature] - starts[feature]
        slopes[feature] = 1.0 / width if width > NARROWEST else 0.0
    for document in range(n_documents):
        for feature in range(n_features):
            share = (features[document, feature] - starts[feature]) * slopes[feature]
            columns[document, first + feature] = height * min(max(share, 0.0), 1.0)


@kernel
def ramps(features: Floats, knots: Floats) -> Floats:
    """Return ramps from 0 to 1 over each piece between two knots: (n_documents, n_pieces × n_features), piece by piece.

    Knots are within ±1e38, so that no difference to a value overflows.
    """
    n_features, n_pieces = knots.shape[0], knots.shape[1] - 1
    bounds, slopes = knots.T.copy(), np.empty(n_features)
    columns = np.empty((features.shape[0], n_pieces * n_features))
    for piece in range(n_pieces):
        _climb(features, bounds[piece], bounds[piece + 1], 1.0, columns, piece * n_features, slopes)
    return columns


@kernel
def line_and_ramps(features: Floats, knots: Floats, bend: float) -> Floats:
    """Return lines from 0 at the first knot to 1 at the last, and ramps from 0 to ``bend`` over each piece.

    The shape is (n_documents, (1 + n_pieces) × n_features): all lines, then piece by piece. A single piece has only lines.
    """
    n_features, last = knots.shape[0], knots.shape[1] - 1
    n_pieces = last if last > 1 else 0
    bounds, slopes = knots.T.copy(), np.empty(n_features)
    columns = np.empty((features.shape[0], (1 + n_pieces) * n_features))
    _climb(features, bounds[0], bounds[last], 1.0, columns, 0, slopes)
    for piece in range(n_pieces):
        _climb(features, bounds[piece], bounds[piece + 1], bend, columns, (1 + piece) * n_features, slopes)
    return columns


@kernel
def _height(value: float, knots: Floats, heights: Floats) -> float:
    """Return the height at a value of straight lines between knots, constant outside; at several equal knots, halfway."""
    first = np.searchsorted(knots, value, "left")
    last = np.searchsorted(knots, value, "right") - 1
    if first < last:
        return 0.5 * heights[first] + 0.5 * heights[last]
    if first == last or last < 0:
        return heights[first]
    if first == len(knots):
        return heights[last]
    return (heights[first] - heights[last]) / (knots[first] - knots[last]) * (value - knots[last]) + heights[last]


@kernel
def _fill_heights(weights: Floats, knots: Floats, bend: float, feature: int, heights: Floats) -> None:
    """Fill in the heights of a feature's line and ramps at its knots; a piece without width has no ramp and does not rise."""
    n_features, n_knots = knots.shape
    width, heights[0] = knots[feature, -1] - knots[feature, 0], 0.0
    for piece in range(n_knots - 1):
        wide = knots[feature, piece + 1] - knots[feature, piece]
        rise = weights[feature] * wide / (width if width > 0.0 else 1.0)
        if n_knots > 2:
            rise = rise + bend * weights[(1 + piece) * n_features + feature]
        heights[piece + 1] = heights[piece] + (rise if wide > NARROWEST else 0.0)


@kernel
def line_and_ramp_heights(weights: Floats, knots: Floats, bend: float) -> Floats:
    """Return the heights at the knots of the curves that have these weights of `line_and_ramps`, (n_features, n_knots)."""
    heights = np.empty(knots.shape)
    for feature in range(knots.shape[0]):
        _fill_heights(weights, knots, bend, feature, heights[feature])
    return heights


@kernel
def carry_line_and_ramps(weights: Floats, old: Floats, new: Floats, bend: float) -> Floats:
    """Return the weights of `line_and_ramps` with other knots: the line keeps its rise, and the ramps take the rest.

    The heights at the new knots are those of the old curve. With a single new piece there is only the line.
    """
    (n_features, n_old), n_new = old.shape, new.shape[1]
    carried = np.empty(n_features if n_new == 2 else n_features * n_new)
    heights, there = np.empty(n_old), np.empty(n_new)
    for feature in range(n_features):
        line = weights[feature]
        _fill_heights(weights, old, bend, feature, heights)
        for place in range(n_new):
            there[place] = _height(new[feature, place], old[feature], heights)
        width = new[feature, -1] - new[feature, 0]
        if n_new == 2:
            carried[feature] = there[1] - there[0] if width > 0.0 else line
            continue
        carried[feature] = line
        for piece in range(n_new - 1):
            share = (new[feature, piece + 1] - new[feature, piece]) / (width if width > 0.0 else 1.0)
            bent = there[piece + 1] - there[piece] - line * share
            carried[(1 + piece) * n_features + feature] = bent / bend
    return carried


@kernel
def steps(features: Floats, knots: Floats) -> Floats:
    """Return steps from 0 to 1 above each inner knot: (n_documents, (n_knots − 2) × n_features), knot by knot."""
    n_documents, n_features = features.shape
    n_steps = knots.shape[1] - 2
    thresholds = knots.T.copy()
    columns = np.empty((n_documents, n_steps * n_features))
    for document in range(n_documents):
        for step in range(n_steps):
            for feature in range(n_features):
                above = features[document, feature] > thresholds[step + 1, feature]
                columns[document, step * n_features + feature] = 1.0 if above else 0.0
    return columns


@kernel
def shares(features: Floats, knots: Floats) -> Floats:
    """Return the share of the distribution below each value, interpolated between quantiles; of equal quantiles the middle."""
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
    """Return the rank of each value among the documents, from 0 for the least to 1; equal values have their mean rank."""
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
def filled(features: Floats, values: Floats) -> Floats:
    """Replace each NaN by the value of its feature; if that is NaN too, by the mean of the feature's other values, 0 without any.

    Where nothing is missing, this copies. The mean is within the range of the other values, in spite of rounding.
    """
    found = features.copy()
    n_documents, n_features = features.shape
    for feature in range(n_features):
        n_known = 0
        for document in range(n_documents):
            n_known += not np.isnan(features[document, feature])
        if n_known == n_documents:
            continue
        value, low, high = values[feature], np.inf, -np.inf
        if np.isnan(value):
            value = 0.0
            for document in range(n_documents):
                known = features[document, feature]
                if not np.isnan(known):
                    value += known / n_known
                    low, high = min(low, known), max(high, known)
            value = min(max(value, low), high) if n_known else 0.0
        for document in range(n_documents):
            if np.isnan(features[document, feature]):
                found[document, feature] = value
    return found


@kernel
def sample_slots(n_seen: int, n_documents: int, size: int, horizon: int, stream: Stream) -> Ints:
    """Draw the slot of the sample for each new document, −1 for none, so that all documents seen are equally likely in it.

    From ``horizon`` documents on, the probability of a slot no longer falls, so the sample forgets early documents. If no document
    gets a slot, as for most lists, the result is an empty array.
    """
    slots, n_taken = np.empty(n_documents, np.int64), 0
    for document in range(n_documents):
        n_seen += 1
        if n_seen <= size:
            slots[document] = n_seen - 1
        elif uniform(stream) * min(n_seen, horizon) < size:
            slots[document] = below(stream, size)
        else:
            slots[document] = -1
        n_taken += slots[document] >= 0
    return slots[: n_documents if n_taken else 0]


@kernel
def is_within(features: Floats, ends: Floats) -> bool:
    """Return whether all values are between the least and the largest value of their feature."""
    n_beyond = 0
    for document in range(features.shape[0]):
        for feature in range(features.shape[1]):
            value = features[document, feature]
            n_beyond += (value < ends[feature, 0]) | (value > ends[feature, 1])
    return n_beyond == 0
