"""Slow twins of `duelrank.kernels.span`: the projector is formed, bases come from LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def dot(a: Floats, b: Floats) -> float:
    """Return a · b."""
    return float(np.dot(a, b))


def norm(vector: Floats) -> float:
    """Return the Euclidean length of a vector."""
    return float(np.linalg.norm(vector))


def subtract(a: Floats, factor: float, b: Floats) -> None:
    """Subtract factor · b from a, in place."""
    a -= factor * b


def relative_tolerance(tolerance: float, n_rows: int, n_columns: int) -> float:
    """Return the tolerance itself, or for a negative one the usual max(rows, columns) · eps."""
    return tolerance if tolerance >= 0.0 else float(max(n_rows, n_columns) * np.finfo(float).eps)


def qr_basis(rows: Floats, tolerance: float) -> Floats:
    """Orthonormal rows that span the given rows, by pivoted Householder QR."""
    if rows.shape[0] == 0:
        return np.empty((0, rows.shape[1]))
    q, r, _ = scipy.linalg.qr(rows.T, mode="economic", pivoting=True)
    lengths = np.abs(np.diag(r))
    return np.asarray(q.T[lengths > relative_tolerance(tolerance, *rows.shape) * lengths[0]])


def svd_basis(rows: Floats, tolerance: float) -> Floats:
    """Return the right singular vectors of the rows, within the span that `qr_basis` keeps."""
    kept = qr_basis(rows, tolerance)
    return np.asarray(np.linalg.svd(rows @ kept.T, full_matrices=False)[2] @ kept) if len(kept) else kept


def project(vector: Floats, basis: Floats) -> Floats:
    """Apply the projector A = VVᵀ."""
    return np.asarray((basis.T @ basis) @ vector)


def ridge_project(vector: Floats, rows: Floats, ridge: float) -> Floats:
    """Shrink each singular direction by σ² / (σ² + ridge)."""
    if rows.shape[0] == 0:
        return np.zeros(rows.shape[1])
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(vectors.T @ (values**2 / (values**2 + ridge) * (vectors @ vector)))


def examined_rows(features: Floats, ranking: Any, seen: Any, remembered: Floats) -> Floats:
    """Stack the remembered documents and then the seen ones in shown order."""
    return np.vstack([remembered, features[ranking[seen]]])


def rescaled_mix(gradient: Floats, projected: Floats, strength: float, rescale: int) -> Floats:
    """Return strength · rescaled projected + (1 − strength) · gradient."""
    before, after = float(np.linalg.norm(gradient)), float(np.linalg.norm(projected))
    if after <= 1e-12 * before:
        return (1.0 - strength) * gradient
    length = {0: after, 1: 1.0, 2: before}[rescale]
    return np.asarray(strength * projected * (length / after) + (1.0 - strength) * gradient)
