"""Reference versions of `duelrank.kernels.projection`: with LAPACK, the whole projector, and sums over all depths."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from duelrank.kernels import Floats


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
    """Return the orthonormal rows that span the given rows, by pivoted Householder QR."""
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
    """Return the remembered documents, then the seen documents in shown order."""
    return np.vstack([remembered, features[ranking[seen]]])


def rescaled_mix(gradient: Floats, projected: Floats, strength: float, rescale: int) -> Floats:
    """Return strength · rescaled projected + (1 − strength) · gradient."""
    before, after = float(np.linalg.norm(gradient)), float(np.linalg.norm(projected))
    if after <= 1e-12 * before:
        return (1.0 - strength) * gradient
    length = {0: after, 1: 1.0, 2: before}[rescale]
    return np.asarray(strength * projected * (length / after) + (1.0 - strength) * gradient)


def count_gaps(clicks: Any, gaps: Floats, forgetting: float) -> Floats:
    """Find the nearest click above every position."""
    gaps = gaps.copy()
    for position in range(len(clicks)):
        above = np.flatnonzero(clicks[:position])
        column = min(position - above[-1], gaps.shape[1] - 1) if above.size else 0
        gaps[:, column] = forgetting * gaps[:, column] + [clicks[position], 1]
    return gaps


def reach(gaps: Floats, room: int, level: float) -> int:
    """Apply Bayes to each position, with P(seen) = P(click) / attraction, down to the first below the level."""
    rates = gaps[0] / gaps[1]
    attraction = rates[0]
    for gap in range(1, room + 1):
        rate = rates[min(gap, len(rates) - 1)]
        seen = 0.0 if rate == 0 else min(1.0, rate / attraction if attraction else 1.0)
        silent = seen * (1 - attraction) + (1 - seen)
        posterior = seen if seen in (0.0, 1.0) else seen * (1 - attraction) / silent
        if posterior < level:
            return gap - 1
    return room


Tables = tuple[Floats, Floats, Floats]


def position_based(
    features: Floats, ranking: Any, clicks: Any, documents: Floats, users: Floats, forgetting: float
) -> Tables:
    """Return P(seen | clicks) under the position-based model, and its tables after the list."""
    attraction = _attractions(features[ranking], documents)
    chances = [users[0, column] / users[1, column] for column in _columns(len(clicks), users.shape[1])]
    seen = np.array([_bayes(*each) for each in zip(clicks, attraction, chances, strict=True)])
    if forgetting < 0:
        return seen, documents.copy(), users.copy()
    users = users.copy()
    for i, column in enumerate(_columns(len(clicks), users.shape[1])):
        if i > 0:
            trials = users[1, column]
            grown = trials + 0.6 * trials ** (-2 / 3)  # d(t^0.6)/dt where t^0.6 = trials
            _count(users, column, seen[i], 1.0, (grown - 1) / trials if forgetting == 1 else forgetting)
    return seen, _regressed(features[ranking], seen * (clicks - attraction), documents, forgetting), users


def dependent_click(
    features: Floats, ranking: Any, clicks: Any, documents: Floats, users: Floats, forgetting: float
) -> Tables:
    """Return P(seen | clicks) under the dependent click model, and its tables after the list."""
    attraction = _attractions(features[ranking], documents)
    columns = [
        column if clicked else -1
        for clicked, column in zip(clicks, _columns(len(clicks), users.shape[1] - 1), strict=True)
    ]
    onward = [users[0, column] / users[1, column] for column in columns]
    seen = _by_depth(clicks, attraction, onward)
    if forgetting < 0:
        return seen, documents.copy(), users.copy()
    users = users.copy()
    for i in range(len(clicks) - 1):
        _count(users, columns[i], seen[i + 1], seen[i], forgetting)
    return seen, _regressed(features[ranking], seen * (clicks - attraction), documents, forgetting), users


def dynamic_bayesian(
    features: Floats, ranking: Any, clicks: Any, documents: Floats, users: Floats, forgetting: float
) -> Tables:
    """Return P(seen | clicks) under the dynamic Bayesian network, and its tables after the list."""
    attraction = _attractions(features[ranking], documents)
    perseverance, satisfaction = users[0] / users[1]
    onward = [perseverance * (1 - satisfaction if clicked else 1) for clicked in clicks]
    seen = _by_depth(clicks, attraction, onward)
    if forgetting < 0:
        return seen, documents.copy(), users.copy()
    users = users.copy()
    for i in range(len(clicks) - 1):
        left = seen[i] - seen[i + 1]
        wanting = left
        if clicks[i]:
            gave_up = (1 - satisfaction) * (1 - perseverance)
            wanting = left * gave_up / (gave_up + satisfaction) if left else 0.0
            _count(users, 1, left - wanting, 1.0, forgetting)
        _count(users, 0, seen[i + 1], seen[i + 1] + wanting, forgetting)
    return seen, _regressed(features[ranking], seen * (clicks - attraction), documents, forgetting), users


def _columns(length: int, n: int) -> list[int]:
    return [min(position, n - 1) for position in range(length)]


def _attractions(shown: Floats, documents: Floats) -> Floats:
    scores = documents[0, -1] + (shown - documents[1, :-1]) @ documents[0, :-1]
    return np.asarray(1 / (1 + np.exp(-np.clip(scores, -30, 30))))


def _bayes(clicked: bool, attraction: float, chance: float) -> float:
    """Return P(seen | clicked or not) of one position, by the joint probabilities; a clicked document was seen."""
    if clicked:
        return 1.0
    unattracted, unseen = chance * (1 - attraction), 1 - chance
    return unattracted / (unattracted + unseen)


def _by_depth(clicks: Any, attraction: Floats, onward: list[float]) -> Floats:
    """Return P(seen | clicks): the possible depths are weighted by their joint probabilities with the clicks.

    The factors down to the last click are equal for all depths, and left out: they may be zero if the model excludes the clicks.
    """
    n, last = len(clicks), max([1, *(np.flatnonzero(clicks) + 1)])
    joint = np.zeros(n + 1)
    for depth in range(last, n + 1):
        stops = 1.0 if depth == n else 1 - onward[depth - 1]
        joint[depth] = np.prod(1 - attraction[last:depth]) * np.prod(onward[last - 1 : depth - 1]) * stops
    return np.array([joint[position + 1 :].sum() / joint.sum() for position in range(n)])


def _count(users: Floats, column: int, successes: float, trials: float, forgetting: float) -> None:
    users[:, column] *= 1 - (1 - forgetting) * trials
    users[:, column] += successes, trials


def _regressed(shown: Floats, errors: Floats, documents: Floats, forgetting: float) -> Floats:
    slopes, intercept, mean, count = documents[0, :-1], documents[0, -1], documents[1, :-1], documents[1, -1]
    count = forgetting * count + 1
    moved = mean + (shown.mean(axis=0) - mean) / count
    intercept = intercept + slopes @ (moved - mean) + 2 / np.sqrt(count) * errors.mean()
    centred = shown - moved
    spread = np.sum(centred**2)
    if spread > 1e-12 * np.sum(shown**2):
        slopes = slopes + 2 / np.sqrt(count) * (errors @ centred) / spread
    return np.array([[*slopes, intercept], [*moved, count]])
