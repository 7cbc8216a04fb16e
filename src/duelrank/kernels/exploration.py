"""Candidate directions: uniform on the sphere, in the span of documents, or in the complement of directions that lost before."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.random import normals
from duelrank.kernels.ranking import best_first, scores
from duelrank.kernels.span import dot, project, qr_basis, subtract

Floats = NDArray[np.float64]


@kernel
def normalise_rows(rows: Floats) -> None:
    """Scale each row to length 1, in place; a row of zeros stays."""
    for i in range(rows.shape[0]):
        total = dot(rows[i], rows[i])
        if total > 0.0:
            length = math.sqrt(total)
            for k in range(rows.shape[1]):
                rows[i, k] /= length


@kernel
def unit_directions(n: int, n_features: int, stream: NDArray[np.uint64]) -> Floats:
    """Draw n directions uniformly from the unit sphere."""
    directions = normals(stream, n, n_features)
    normalise_rows(directions)
    return directions


@kernel
def spanning_rows(features: Floats, weights: Floats, top: int, centred: bool) -> Floats:
    """Copy the top documents by the weights, of equal ones the first; centred, their mean is subtracted.

    What is left of a feature that all of them share is rounding: it counts as zero.
    """
    n = min(top, features.shape[0])
    rows = np.empty((n, features.shape[1]))
    if n == features.shape[0]:
        rows[:] = features
    else:
        order = best_first(scores(weights.reshape(1, -1), features)[0])
        for i in range(n):
            rows[i] = features[order[i]]
    if centred:
        mean = np.zeros(rows.shape[1])
        for i in range(n):
            mean += rows[i]
        mean /= n
        for i in range(n):
            for k in range(mean.shape[0]):
                rest = rows[i, k] - mean[k]
                rows[i, k] = rest if abs(rest) > 1e-12 * abs(mean[k]) else 0.0
    return rows


@kernel
def span_directions(rows: Floats, n: int, unit: bool, stream: NDArray[np.uint64]) -> Floats:
    """Draw n uniform unit vectors and project them onto the span of the rows; scale to length 1 again if asked to.

    Directions of the span under 1e-9 of the longest row are rounding, such as that of a document minus an equal mean.
    """
    basis = qr_basis(rows, 1e-9)
    directions = unit_directions(n, rows.shape[1], stream)
    for i in range(n):
        directions[i] = project(directions[i], basis)
    if unit:
        normalise_rows(directions)
    return directions


@kernel
def null_space_directions(
    avoided: Floats, features: Floats, n_drawn: int, n_kept: int, stream: NDArray[np.uint64]
) -> Floats:
    """Draw unit vectors orthogonal to the avoided basis; keep those that this query's documents tell apart best.

    Kept are the ones with the largest |u · mean document|, in the order in which they were drawn. That is found from the
    coordinates in the avoided space alone: only what is kept is projected.
    """
    n_features = features.shape[1]
    mean = np.zeros((1, n_features))
    for document in range(features.shape[0]):
        subtract(mean[0], -1.0, features[document])
    drawn = normals(stream, n_drawn, n_features)
    inside, toward, along = scores(avoided, drawn), scores(avoided, mean), scores(mean, drawn)
    reach = np.empty(n_drawn)
    for i in range(n_drawn):
        left, length = along[0, i], dot(drawn[i], drawn[i])
        for j in range(avoided.shape[0]):
            left -= inside[j, i] * toward[j, 0]
            length -= inside[j, i] * inside[j, i]
        reach[i] = abs(left) / math.sqrt(length)
    chosen = np.zeros(n_drawn, np.bool_)
    for i in best_first(reach)[:n_kept]:
        chosen[i] = True
    directions, n = np.empty((n_kept, n_features)), 0
    for i in range(n_drawn):
        if chosen[i]:
            directions[n] = drawn[i]
            for j in range(avoided.shape[0]):
                subtract(directions[n], inside[j, i], avoided[j])
            n += 1
    normalise_rows(directions)
    return directions


@kernel
def worst_rows(losers: Floats, margins: Floats, n: int) -> Floats:
    """Return the n rows with the smallest margins; of equal ones the newest, which stand last."""
    n_losers = margins.shape[0]
    order = best_first(-margins[::-1])[:n]
    worst = np.empty((order.shape[0], losers.shape[1]))
    for i in range(order.shape[0]):
        worst[i] = losers[n_losers - 1 - order[i]]
    return worst


@kernel
def remember_losers(
    losers: Floats, margins: Floats, directions: Floats, credit: Floats, n_low: int, capacity: int
) -> tuple[Floats, Floats]:
    """Append the directions that lost, oldest first, and keep the newest up to the capacity.

    A loser has less credit than the current ranker and no more than the n_low-th smallest of all rankers.
    """
    n_rankers, n_old = credit.shape[0], losers.shape[0]
    bar = credit[best_first(-credit)[min(n_low, n_rankers) - 1]]
    n_all = n_old
    for i in range(1, n_rankers):
        n_all += credit[i] < credit[0] and credit[i] <= bar
    if n_all == n_old:
        return losers, margins
    rows, row_margins = np.empty((n_all, losers.shape[1])), np.empty(n_all)
    rows[:n_old], row_margins[:n_old] = losers, margins
    for i in range(1, n_rankers):
        if credit[i] < credit[0] and credit[i] <= bar:
            rows[n_old], row_margins[n_old] = directions[i - 1], credit[i] - credit[0]
            n_old += 1
    return rows[-capacity:].copy(), row_margins[-capacity:].copy()
