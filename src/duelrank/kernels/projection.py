"""Kernels of projection: orthonormal bases and projections, and models of which positions users examined.

A click model has two tables. ``documents`` (2, features + 1) is a logistic regression of attraction on centred features: row 0 has
the slopes and the intercept, row 1 the mean document and the number of lists that it averages. ``users`` (2, columns) has successes
and trials, one column per probability of the model. With a negative ``forgetting`` nothing is learned.
"""

from __future__ import annotations

import math

import numpy as np

from duelrank.core.compiling import kernel
from duelrank.kernels import Flags, Floats, Ints
from duelrank.kernels.elementary import exp, power
from duelrank.kernels.lanes import lane_dot
from duelrank.kernels.ranking import best_first, scores

FAR = 30.0  # bound on scores: σ(30) = 1 − 1e-13, so that no outcome is impossible
PACE = 2.0  # half of the longest safe step on a list, because intercept and slopes move at once
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
    """Return length² of a remainder; if it lost most of its length, it is first orthogonalised against the basis again."""
    length = dot(row, row)
    if length < 0.01 * original:
        for i in range(basis.shape[0]):
            subtract(row, dot(row, basis[i]), basis[i])
        length = dot(row, row)
    return length


@kernel
def _largest(rows: Floats) -> float:
    """Return the largest absolute value of all entries; 0 if there are none."""
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
    """Return the index of the largest length from a start on, the first of equal ones."""
    best = start
    for i in range(start + 1, lengths.shape[0]):
        if lengths[i] > lengths[best]:
            best = i
    return best


@kernel
def qr_basis(rows: Floats, tolerance: float) -> Floats:
    """Return orthonormal rows that span the given rows, by Gram-Schmidt with the longest remainder as the next pivot.

    Remainders below the relative tolerance times the longest row are dropped. Lengths are updated, not computed, after each
    subtraction. A remainder that lost most of its length is orthogonalised again and its length computed, so nearly dependent rows
    are handled.
    """
    n_rows, n_columns = rows.shape
    largest = _largest(rows)
    if largest == 0.0:
        return np.empty((0, n_columns))
    rest = _divided(rows, largest)  # so that no square of a length overflows or vanishes
    lengths, originals, longest = np.empty(n_rows), np.empty(n_rows), 0.0  # all squared
    for i in range(n_rows):
        lengths[i] = originals[i] = dot(rest[i], rest[i])
        longest = max(longest, lengths[i])
    cut = relative_tolerance(tolerance, n_rows, n_columns) ** 2 * longest
    rank = 0
    while rank < min(n_rows, n_columns):
        pivot = _longest(lengths, rank)
        length = _clean_length(rest[pivot], rest[:rank], originals[pivot])
        if length < 0.5 * lengths[pivot]:  # the updated length was too inaccurate to choose a pivot
            lengths[pivot] = length
            continue
        if (
            length <= cut
        ):  # the longest by updated lengths is zero, but another remainder may be longer than its updated length
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
    """Return orthonormal rows that span the given rows: their right singular vectors within the span that `qr_basis` keeps.

    `qr_basis` decides which directions are dropped, so both bases span the same space. A cut by singular values, which are relative
    to all rows and not to the longest, would differ for rows that are equal except for rounding. Pairs of basis vectors are rotated
    until the coordinates of the rows along them are orthogonal (Hestenes, 1958); the longest coordinates come first.
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
    """Rotate two rows of coordinates and their basis vectors, in place, until orthogonal; return False if they already were."""
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
    """Return the ridge projection of a vector onto the span of rows, Xᵀ(XXᵀ + ridge · I)⁻¹Xu, by Cholesky.

    A row that is a combination of earlier rows within rounding is left out, which is the limit for a vanishing ridge.
    """
    m = rows.shape[0]
    largest = _largest(rows)
    shadow = np.zeros(vector.shape[0])
    if largest == 0.0:
        return shadow
    scaled = _divided(rows, largest)  # so that no square of a length overflows or vanishes
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
def examined_rows(features: Floats, ranking: Ints, seen: Flags, remembered: Floats) -> Floats:
    """Return the remembered documents, then the seen documents in shown order."""
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
    """Return strength · rescaled projection + (1 − strength) · gradient.

    Rescale 0: no change; 1: to length 1; 2: to the length of the gradient. The projection of a gradient that is orthogonal to the
    space is a rounding error, and counts as zero.
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


@kernel
def count_gaps(clicks: Flags, gaps: Floats, forgetting: float) -> Floats:
    """Return the table of clicks (row 0) and trials (row 1) by distance to the click above, after one list.

    Column g ≥ 1 counts positions at distance g below a click without another click between; the last column also larger distances.
    Column 0 counts positions without a click above. Each new trial multiplies the earlier ones of its column by ``forgetting``.
    """
    gaps = gaps.copy()
    gap = 0
    for position in range(clicks.shape[0]):
        column = min(gap, gaps.shape[1] - 1)
        gaps[0, column] = forgetting * gaps[0, column] + clicks[position]
        gaps[1, column] = forgetting * gaps[1, column] + 1.0
        if clicks[position]:
            gap = 1
        elif gap > 0:
            gap += 1
    return gaps


@kernel
def reach(gaps: Floats, room: int, level: float) -> int:
    """Return how many of the ``room`` positions below the last click were seen with a probability of at least ``level``.

    If a seen document is clicked with probability a, one that is clicked with probability λ was seen with probability λ/a, and,
    given no click, with (λ/a − λ)/(1 − λ). Column 0 gives a: users who have not clicked yet are assumed to see everything.
    """
    a = gaps[0, 0] / gaps[1, 0]
    for gap in range(1, room + 1):
        column = min(gap, gaps.shape[1] - 1)
        clicked = gaps[0, column] / gaps[1, column]
        seen = 1.0 if clicked >= a and clicked > 0.0 else 0.0
        if 0.0 < clicked < a:
            seen = clicked * (1.0 - a) / (a * (1.0 - clicked))
        if seen < level:
            return gap - 1
    return room


@kernel
def _attractions(features: Floats, ranking: Ints, documents: Floats) -> Floats:
    """Return P(click | seen) of each shown document."""
    d = features.shape[1]
    start = documents[0, d] - dot(documents[0, :d], documents[1, :d])
    attraction = np.empty(ranking.shape[0])
    for i in range(ranking.shape[0]):
        score = start + dot(features[ranking[i]], documents[0, :d])
        attraction[i] = 1.0 / (1.0 + exp(-min(max(score, -FAR), FAR)))
    return attraction


@kernel
def _regress(features: Floats, ranking: Ints, errors: Floats, documents: Floats, forgetting: float) -> None:
    """Update the regression by the errors of one list, in place; the step is a safe one divided by √(number of lists)."""
    n, d = ranking.shape[0], features.shape[1]
    pull, mean = np.zeros(d), np.zeros(d)
    squares = 0.0
    for i in range(n):
        row = features[ranking[i]]
        error = errors[i]
        for k in range(d):
            pull[k] += error * row[k]
            mean[k] += row[k]
        squares += dot(row, row)
    documents[1, d] = forgetting * documents[1, d] + 1.0
    total = np.sum(errors)
    spread, shift = squares, 0.0
    for k in range(d):
        move = (mean[k] / n - documents[1, k]) / documents[1, d]
        shift += documents[0, k] * move
        documents[1, k] += move
        pull[k] -= total * documents[1, k]
        spread += documents[1, k] * (n * documents[1, k] - 2.0 * mean[k])
    pace = PACE / math.sqrt(documents[1, d])
    documents[0, d] += (
        shift + pace * total / n
    )  # with the shift, a change of the mean document alone changes no prediction
    if spread > 1e-12 * squares:
        for k in range(d):
            documents[0, k] += pace / spread * pull[k]


@kernel
def _count(users: Floats, column: int, successes: float, trials: float, forgetting: float) -> None:
    """Add trials to a column, in place; a whole trial multiplies the weight of all earlier ones by ``forgetting``."""
    kept = 1.0 - (1.0 - forgetting) * trials
    users[0, column] = kept * users[0, column] + successes
    users[1, column] = kept * users[1, column] + trials


@kernel
def _fading(trials: float) -> float:
    """Return the forgetting with which t trials of a column count as t^0.6.

    Most variables of the position-based model are hidden. With equal weights, the trials that were judged by the initial parameters
    would hold the estimate back for ever; steps of t^−0.6 forget them (Cappé and Moulines, 2009).
    """
    return 1.0 - (1.0 - 0.6 * power(trials, -2.0 / 3.0)) / trials


@kernel
def _cascade(clicks: Flags, attraction: Floats, after_click: Floats, after_skip: float) -> Floats:
    """Return P(seen | all clicks) of each position for users who scan from the top and may stop after each document.

    They continue with P(after_click) of the position (the last entry holds for all further ones) or P(after_skip). All positions
    down to the last click were seen. Below it, a backward pass computes the probability that no click follows a seen position.
    """
    n, deepest = clicks.shape[0], after_click.shape[0] - 1
    seen = np.ones(n)
    silence = 1.0  # P(no click below | a position is seen and skipped)
    for i in range(n - 1, 0, -1):
        if clicks[i]:
            break
        silent = (1.0 - attraction[i]) * silence
        onward = after_click[min(i - 1, deepest)] if clicks[i - 1] else after_skip
        silence = onward * silent + (1.0 - onward)  # the parentheses matter: silent may be tiny, and onward 1
        seen[i] = onward * silent / silence
    for i in range(1, n):
        if not clicks[i]:
            seen[i] *= seen[i - 1]
    return seen


@kernel
def position_based(
    features: Floats, ranking: Ints, clicks: Flags, documents: Floats, users: Floats, forgetting: float
) -> tuple[Floats, Floats, Floats]:
    """Return P(seen | clicks) under the position-based model, and its tables after the list.

    There is one column per position; the first position is always seen.
    """
    documents, users = documents.copy(), users.copy()
    attraction = _attractions(features, ranking, documents)
    n, deepest = clicks.shape[0], users.shape[1] - 1
    seen = np.ones(n)
    for i in range(n):
        if not clicks[i]:
            prior = users[0, min(i, deepest)] / users[1, min(i, deepest)]
            seen[i] = prior * (1.0 - attraction[i]) / (1.0 - prior * attraction[i])
    if forgetting >= 0.0:
        for i in range(1, n):
            column = min(i, deepest)
            _count(users, column, seen[i], 1.0, _fading(users[1, column]) if forgetting == 1.0 else forgetting)
        _regress(features, ranking, seen * (clicks - attraction), documents, forgetting)
    return seen, documents, users


@kernel
def dependent_click(
    features: Floats, ranking: Ints, clicks: Flags, documents: Floats, users: Floats, forgetting: float
) -> tuple[Floats, Floats, Floats]:
    """Return P(seen | clicks) under the dependent click model, and its tables after the list.

    Columns: continuing after a click, per position, and last continuing after a document that was not clicked.
    """
    documents, users = documents.copy(), users.copy()
    attraction = _attractions(features, ranking, documents)
    skip = users.shape[1] - 1
    onward = users[0] / users[1]
    seen = _cascade(clicks, attraction, onward[:skip], onward[skip])
    if forgetting >= 0.0:
        for i in range(clicks.shape[0] - 1):  # whether users continued after the last position cannot be known
            _count(users, min(i, skip - 1) if clicks[i] else skip, seen[i + 1], seen[i], forgetting)
        _regress(features, ranking, seen * (clicks - attraction), documents, forgetting)
    return seen, documents, users


@kernel
def dynamic_bayesian(
    features: Floats, ranking: Ints, clicks: Flags, documents: Floats, users: Floats, forgetting: float
) -> tuple[Floats, Floats, Floats]:
    """Return P(seen | clicks) under the dynamic Bayesian network, and its tables after the list.

    Columns: perseverance, and satisfaction by a clicked document. A user who stops after a click was satisfied or gave up.
    """
    documents, users = documents.copy(), users.copy()
    attraction = _attractions(features, ranking, documents)
    perseverance, satisfaction = users[0, 0] / users[1, 0], users[0, 1] / users[1, 1]
    onward = perseverance * (1.0 - satisfaction)
    gave_up = 1.0 - satisfaction / (1.0 - onward) if onward < 1.0 else 0.0  # P(not satisfied | stopped after a click)
    seen = _cascade(clicks, attraction, np.array([onward]), perseverance)
    if forgetting >= 0.0:
        for i in range(clicks.shape[0] - 1):
            wanting = seen[i]
            if clicks[i]:
                wanting = seen[i + 1] + (1.0 - seen[i + 1]) * gave_up
                _count(users, 1, 1.0 - wanting, 1.0, forgetting)
            _count(users, 0, seen[i + 1], wanting, forgetting)
        _regress(features, ranking, seen * (clicks - attraction), documents, forgetting)
    return seen, documents, users
