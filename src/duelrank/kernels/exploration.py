"""Candidate directions: uniform on the sphere, or uniform in the complement of directions that lost before."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from duelrank.kernels.random import normals
from duelrank.kernels.span import project, qr_basis

Floats = NDArray[np.float64]

_SUMS = {"reassoc", "contract"}


@njit(cache=True, fastmath=_SUMS)
def normalise_rows(rows: Floats) -> None:
    """Scale each row to length 1, in place; a row of zeros stays."""
    for i in range(rows.shape[0]):
        total = 0.0
        for k in range(rows.shape[1]):
            total += rows[i, k] * rows[i, k]
        if total > 0.0:
            rows[i] /= math.sqrt(total)


@njit(cache=True)
def unit_directions(n: int, n_features: int, stream: NDArray[np.uint64]) -> Floats:
    """Draw n directions uniformly from the unit sphere."""
    directions = normals(stream, n, n_features)
    normalise_rows(directions)
    return directions


@njit(cache=True)
def null_space_directions(
    losers: Floats, features: Floats, n_drawn: int, n_kept: int, stream: NDArray[np.uint64]
) -> Floats:
    """Draw unit vectors from the complement of the losers and keep those that this query's documents tell apart best.

    Kept are the ones with the largest |u · mean document|, in the order in which they were drawn.
    """
    n_documents, n_features = features.shape
    basis = qr_basis(losers, -1.0)
    drawn = normals(stream, n_drawn, n_features)
    mean = np.zeros(n_features)
    for document in range(n_documents):
        mean += features[document]
    reach = np.empty(n_drawn)
    for i in range(n_drawn):
        drawn[i] -= project(drawn[i], basis)
    normalise_rows(drawn)
    for i in range(n_drawn):
        reach[i] = -abs(np.sum(drawn[i] * mean))
    kept = np.sort(np.argsort(reach, kind="mergesort")[:n_kept])
    return drawn[kept]


@njit(cache=True)
def worst_rows(losers: Floats, margins: Floats, n: int) -> Floats:
    """Return the n rows with the smallest margins; of equal ones the newest, which stand last."""
    order = np.argsort(margins[::-1], kind="mergesort")[:n]
    return losers[margins.shape[0] - 1 - order]


@njit(cache=True)
def remember_losers(
    losers: Floats, margins: Floats, directions: Floats, credit: Floats, n_low: int, capacity: int
) -> tuple[Floats, Floats]:
    """Append the directions that lost, oldest first, and keep the newest up to the capacity.

    A loser has less credit than the current ranker and no more than the n_low-th smallest of all rankers.
    """
    bar = np.sort(credit)[min(n_low, credit.shape[0]) - 1]
    lost = np.zeros(directions.shape[0], np.bool_)
    for i in range(directions.shape[0]):
        lost[i] = credit[i + 1] < credit[0] and credit[i + 1] <= bar
    if not np.any(lost):
        return losers, margins
    all_losers = np.concatenate((losers, directions[lost]))
    all_margins = np.concatenate((margins, credit[1:][lost] - credit[0]))
    return all_losers[-capacity:].copy(), all_margins[-capacity:].copy()
