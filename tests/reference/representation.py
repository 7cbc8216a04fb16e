"""Reference versions of `duelrank.kernels.representation`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tests.reference.random import below, uniform

from duelrank.kernels import Floats, Ints


def ramps(features: Floats, knots: Floats) -> Floats:
    """Return ramps from 0 to 1 over each piece between two knots."""
    columns = []
    for lows, highs in zip(knots.T[:-1], knots.T[1:], strict=True):
        for values, low, high in zip(features.T, lows, highs, strict=True):
            flat = high - low <= 1e-300
            columns.append(np.zeros(len(values)) if flat else np.interp(values, [low, high], [0.0, 1.0]))
    return np.array(columns).T.reshape(len(features), -1)


def line_and_ramps(features: Floats, knots: Floats, bend: float) -> Floats:
    """Return lines from the first knot to the last, and lower ramps over each piece if there are two or more."""
    lines = ramps(features, knots[:, [0, -1]])
    if knots.shape[1] == 2:
        return lines
    return np.concatenate([lines, bend * ramps(features, knots)], axis=1)


def line_and_ramp_heights(weights: Floats, knots: Floats, bend: float) -> Floats:
    """Return the heights at the knots: the sum of the rises of a line and of ramps, but for pieces without width."""
    found = []
    for (line, *ramps), row in zip(weights.reshape(-1, len(knots)).T, knots, strict=True):
        rises = line * _shares_of_width(row) + bend * np.array(ramps or [0.0])
        found.append(np.concatenate([[0.0], np.cumsum(np.where(np.diff(row) > 1e-300, rises, 0.0))]))
    return np.array(found)


def carry_line_and_ramps(weights: Floats, old: Floats, new: Floats, bend: float) -> Floats:
    """Return lines that rise as before, and ramps with which the heights at the new knots are those of the old curve."""
    found = []
    for feature, (before, after) in enumerate(zip(old, new, strict=True)):
        line, heights = weights[feature], line_and_ramp_heights(weights, old, bend)[feature]
        at = np.array(
            [
                0.5 * _limit(value, before, heights) + 0.5 * _limit(-value, -before[::-1], heights[::-1])
                for value in after
            ]
        )
        if len(after) > 2:
            found.append([line, *(np.diff(at) - line * _shares_of_width(after)) / bend])
        else:
            found.append([at[1] - at[0] if after[0] < after[1] else line])
    return np.array(found).T.ravel()


def _shares_of_width(knots: Floats) -> Floats:
    return np.diff(knots) / (knots[-1] - knots[0] or 1.0)


def _limit(value: float, knots: Floats, heights: Floats) -> float:
    """Return the height at a value, coming from below."""
    kept = [place for place in range(len(knots)) if knots[place] != value or place == np.flatnonzero(knots == value)[0]]
    return float(np.interp(value, knots[kept], heights[kept]))


def steps(features: Floats, knots: Floats) -> Floats:
    """Return steps from 0 to 1 above each inner knot."""
    return np.concatenate([features > row for row in knots.T[1:-1]], axis=1).astype(np.float64)


def shares(features: Floats, knots: Floats) -> Floats:
    """Return the share of the distribution below each value: the middle of equal quantiles."""
    place = np.arange(knots.shape[1]) / (knots.shape[1] - 1)
    columns = []
    for values, row in zip(features.T, knots, strict=True):
        found = np.interp(values, row, place)
        for value in np.unique(row):
            found[values == value] = place[row == value].mean()
        columns.append(found)
    return np.array(columns).T


def query_ranks(features: Floats) -> Floats:
    """Return the number of values below, and half of the other equal ones, as a share of all others."""
    less = (features[None, :, :] < features[:, None, :]).sum(axis=1)
    equal = (features[None, :, :] == features[:, None, :]).sum(axis=1) - 1
    return np.asarray((less + 0.5 * equal) / max(1, len(features) - 1))


def filled(features: Floats, values: Floats) -> Floats:
    """Replace each NaN by the value of its feature, or by the mean of the others."""
    found = features.copy()
    for column, value in zip(found.T, values, strict=True):
        missing = np.isnan(column)
        known = column[~missing]
        mean = np.clip((known / max(1, len(known))).sum(), known.min(), known.max()) if len(known) else 0.0
        column[missing] = mean if np.isnan(value) else value
    return found


def sample_slots(n_seen: int, n_documents: int, size: int, horizon: int, stream: NDArray[np.uint64]) -> Ints:
    """Draw the slot of the sample for each new document, −1 for none; an empty array if no document gets one."""
    slots = []
    for number in range(n_seen + 1, n_seen + n_documents + 1):
        if number <= size:
            slots.append(number - 1)
        else:
            taken = uniform(stream) < size / min(number, horizon)
            slots.append(int(below(stream, size)) if taken else -1)
    return np.array(slots if max(slots) >= 0 else [], np.int64)


def is_within(features: Floats, ends: Floats) -> bool:
    """Return whether all values are between the least and the largest value of their feature."""
    return bool((features >= ends[:, 0]).all() and (features <= ends[:, 1]).all())
