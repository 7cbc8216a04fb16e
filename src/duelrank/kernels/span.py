"""Orthonormal bases of the span of some vectors, and projection onto it without ever forming the projector."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.lanes import lane_dot
from duelrank.kernels.ranking import best_first, scores

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


@kernel
def dot(a: Floats, b: Floats) -> float:
    """Return a · b."""
    return lane_dot(a, b)


@kernel
def norm(vector: Floats) -> float:
    """Return the Euclidean length of a vector."""
    return math.sqrt(dot(vector, vector))


@kernel
def subtract(a: Floats, factor: float, b: Floats) -> None:
    """Subtract factor · b from a, in place."""
    for k in range(a.shape[0]):
        a[k] -= factor * b[k]


@kernel
def relative_tolerance(tolerance: float, n_rows: int, n_columns: int) -> float:
    """Return the tolerance itself, or for a negative one the usual max(rows, columns) · eps."""
    return tolerance if tolerance >= 0.0 else max(n_rows, n_columns) * _EPS


@kernel
def _clean_length(row: Floats, basis: Floats, original: float) -> float:
    """Length² of a remainder; one that lost most of its length is first orthogonalised once more against the basis."""
    length = dot(row, row)
    if length < 0.01 * original:
        for i in range(basis.shape[0]):
            subtract(row, dot(row, basis[i]), basis[i])
        length = dot(row, row)
    return length


@kernel
def _largest(rows: Floats) -> float:
    """Size of the largest entry; 0 where there is none."""
    largest = 0.0
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            largest = max(largest, abs(rows[i, k]))
    return largest


@kernel
def _divided(rows: Floats, by: float) -> Floats:
    """Return rows / by."""
    divided = np.empty(rows.shape)
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            divided[i, k] = rows[i, k] / by
    return divided


@kernel
def _longest(lengths: Floats, start: int) -> int:
    """Index of the largest length from a start on, the first of equal ones."""
    best = start
    for i in range(start + 1, lengths.shape[0]):
        if lengths[i] > lengths[best]:
            best = i
    return best


@kernel
def qr_basis(rows: Floats, tolerance: float) -> Floats:
    """Orthonormal rows that span the given rows, by Gram-Schmidt that always takes the longest remainder next.

    Remainders under the relative tolerance times the longest row are dropped. Lengths are updated, not measured, after each
    subtraction; where most of one is gone it is measured, and the remainder cleaned, so nearly dependent rows are no problem.
    """
    n_rows, n_columns = rows.shape
    largest = _largest(rows)
    if largest == 0.0:
        return np.empty((0, n_columns))
    rest = _divided(rows, largest)  # no square of a length may leave the range of floats
    lengths, originals, longest = np.empty(n_rows), np.empty(n_rows), 0.0  # all squared
    for i in range(n_rows):
        lengths[i] = originals[i] = dot(rest[i], rest[i])
        longest = max(longest, lengths[i])
    cut = relative_tolerance(tolerance, n_rows, n_columns) ** 2 * longest
    rank = 0
    while rank < min(n_rows, n_columns):
        pivot = _longest(lengths, rank)
        length = _clean_length(rest[pivot], rest[:rank], originals[pivot])
        if length < 0.5 * lengths[pivot]:  # the update was too rough to choose by
            lengths[pivot] = length
            continue
        if length <= cut:  # the longest by rough lengths is nothing: another may be more than its rough length says
            for i in range(rank, n_rows):
                lengths[i] = _clean_length(rest[i], rest[:rank], originals[i])
            if lengths[_longest(lengths, rank)] <= cut:
                break
            continue
        if pivot != rank:
            for k in range(n_columns):
                rest[rank, k], rest[pivot, k] = rest[pivot, k], rest[rank, k]
            lengths[pivot], originals[pivot] = lengths[rank], originals[rank]
        norm = math.sqrt(length)
        for k in range(n_columns):
            rest[rank, k] /= norm
        for i in range(rank + 1, n_rows):
            along = dot(rest[i], rest[rank])
            subtract(rest[i], along, rest[rank])
            lengths[i] -= along * along
        rank += 1
    return rest[:rank].copy()


@kernel
def svd_basis(rows: Floats, tolerance: float) -> Floats:
    """Orthonormal rows that span the given rows: their right singular vectors within the span that `qr_basis` keeps.

    What is dropped is decided there, for both. A singular value is a share of the length of all rows together, a remainder one of
    the longest row: cut at the same number, they would differ on rows that are equal but for rounding. Pairs of basis vectors are
    turned until the coordinates of the rows along them are orthogonal (Hestenes, 1958); the longest coordinates come first.
    """
    basis = qr_basis(rows, tolerance)
    along = scores(basis, _divided(rows, max(_largest(rows), 1e-300)))
    n, turned = basis.shape[0], True
    while turned:
        turned = False
        for i in range(n):
            for j in range(i + 1, n):
                turned |= _turn(along[i], along[j], basis[i], basis[j])
    lengths = np.empty(n)
    for i in range(n):
        lengths[i] = dot(along[i], along[i])
    return basis[best_first(lengths)]


@kernel
def _turn(one: Floats, other: Floats, first: Floats, second: Floats) -> bool:
    """Turn two rows of coordinates, in place, with their basis vectors, so that they are orthogonal; return False if they were."""
    a, b, c = dot(one, one), dot(other, other), dot(one, other)
    if abs(c) <= 1e-15 * math.sqrt(a * b):
        return False
    slope = (b - a) / (2.0 * c)
    tangent = math.copysign(1.0, slope) / (abs(slope) + math.sqrt(1.0 + slope * slope))
    cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
    for x, y in ((one, other), (first, second)):
        for k in range(x.shape[0]):
            x[k], y[k] = cosine * (x[k] - tangent * y[k]), cosine * (y[k] + tangent * x[k])
    return True


@kernel
def project(vector: Floats, basis: Floats) -> Floats:
    """Project a vector onto the span of an orthonormal basis: V(Vᵀu), in two passes."""
    shadow = np.empty(vector.shape[0])
    for k in range(shadow.shape[0]):
        shadow[k] = 0.0
    for i in range(basis.shape[0]):
        subtract(shadow, -dot(basis[i], vector), basis[i])
    return shadow


@kernel
def ridge_project(vector: Floats, rows: Floats, ridge: float) -> Floats:
    """Project a vector softly onto the span of rows: Xᵀ(XXᵀ + ridge · I)⁻¹Xu, by Cholesky.

    A row that is a combination of earlier ones but for rounding is left out, as a ridge too small to be felt would have it.
    """
    m = rows.shape[0]
    largest = _largest(rows)
    shadow = np.zeros(vector.shape[0])
    if largest == 0.0:
        return shadow
    scaled = _divided(rows, largest)  # no square of a length may leave the range of floats
    ridge = ridge / largest / largest
    factor, solution = np.zeros((m, m)), np.zeros(m)
    for i in range(m):
        for j in range(i):
            if factor[j, j] > 0.0:
                factor[i, j] = (dot(scaled[i], scaled[j]) - dot(factor[i, :j], factor[j, :j])) / factor[j, j]
        whole = dot(scaled[i], scaled[i]) + ridge
        pivot = whole - dot(factor[i, :i], factor[i, :i])
        if pivot > relative_tolerance(-1.0, m, rows.shape[1]) * whole:
            factor[i, i] = math.sqrt(pivot)
            solution[i] = (dot(scaled[i], vector) - dot(factor[i, :i], solution[:i])) / factor[i, i]
    for i in range(m - 1, -1, -1):
        if factor[i, i] > 0.0:
            solution[i] /= factor[i, i]
            subtract(solution[:i], solution[i], factor[i, :i])
            subtract(shadow, -solution[i], scaled[i])
    return shadow


@kernel
def examined_rows(features: Floats, ranking: NDArray[np.int64], seen: NDArray[np.bool_], remembered: Floats) -> Floats:
    """Stack the remembered documents and then the seen ones in shown order."""
    n, d = remembered.shape
    for position in range(seen.shape[0]):
        n += seen[position]
    rows = np.empty((n, d))
    n = remembered.shape[0]
    for i in range(n):
        for k in range(d):
            rows[i, k] = remembered[i, k]
    for position in range(seen.shape[0]):
        if seen[position]:
            for k in range(d):
                rows[n, k] = features[ranking[position], k]
            n += 1
    return rows


@kernel
def rescaled_mix(gradient: Floats, projected: Floats, strength: float, rescale: int) -> Floats:
    """Return strength · projected + (1 − strength) · gradient, the projected one first rescaled.

    rescale 0: as it is; 1: to length 1; 2: to the length of the gradient. What is left of a gradient that is orthogonal to the
    space is rounding: it counts as zero instead of being blown up to a direction.
    """
    before = math.sqrt(dot(gradient, gradient))
    after = math.sqrt(dot(projected, projected))
    factor = 1.0
    if after <= 1e-12 * before:
        factor = 0.0
    elif rescale == 1:
        factor = 1.0 / after
    elif rescale == 2:
        factor = before / after
    mix = np.empty(gradient.shape[0])
    for k in range(mix.shape[0]):
        mix[k] = (strength * factor) * projected[k] + (1.0 - strength) * gradient[k]
    return mix
