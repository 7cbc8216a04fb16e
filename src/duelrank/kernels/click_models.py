"""Click models: which positions were seen given all clicks of a list, and online EM for what the models do not know.

Two tables hold a model. ``documents`` (2, features + 1) is a logistic regression of attraction on centred features: row 0 has the
slopes and the intercept, row 1 the mean document and how many lists it was made of. ``users`` (2, columns) has successes over
trials, a column per probability of the model. With a negative ``forgetting`` nothing is learned.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from duelrank.compiling import kernel
from duelrank.kernels.elementary import exp, power
from duelrank.kernels.span import dot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FAR = 30.0  # a score beyond is as sure: σ(30) = 1 − 1e-13, and nothing ever is impossible
PACE = 2.0  # half of what would be the longest safe step on a list, as intercept and slopes move at once


@kernel
def _attractions(features: Floats, ranking: Ints, documents: Floats) -> Floats:
    """P(click | seen) of each shown document."""
    d = features.shape[1]
    start = documents[0, d] - dot(documents[0, :d], documents[1, :d])
    attraction = np.empty(ranking.shape[0])
    for i in range(ranking.shape[0]):
        score = start + dot(features[ranking[i]], documents[0, :d])
        attraction[i] = 1.0 / (1.0 + exp(-min(max(score, -FAR), FAR)))
    return attraction


@kernel
def _regress(features: Floats, ranking: Ints, errors: Floats, documents: Floats, forgetting: float) -> None:
    """Move the regression along the errors of one list, in place, by a step that is safe for it divided by √(lists known)."""
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
    documents[0, d] += shift + pace * total / n  # the shift: another mean document alone changes no prediction
    if spread > 1e-12 * squares:
        for k in range(d):
            documents[0, k] += pace / spread * pull[k]


@kernel
def _count(users: Floats, column: int, successes: float, trials: float, forgetting: float) -> None:
    """Add trials to a column, in place; a whole trial makes all earlier ones count ``forgetting`` times as much."""
    kept = 1.0 - (1.0 - forgetting) * trials
    users[0, column] = kept * users[0, column] + successes
    users[1, column] = kept * users[1, column] + trials


@kernel
def _fading(trials: float) -> float:
    """The forgetting after which a column that t trials have made counts as t^0.6 of them.

    Most of what the position-based model learns from is hidden. If all trials counted alike, those that were judged by the first
    guess would hold the estimate back for ever; steps of t^−0.6 forget them (Cappé and Moulines, 2009).
    """
    return 1.0 - (1.0 - 0.6 * power(trials, -2.0 / 3.0)) / trials


@kernel
def _cascade(clicks: Flags, attraction: Floats, after_click: Floats, after_skip: float) -> Floats:
    """P(seen | all clicks) of each position, where users go from the top down and may stop after each document.

    They go on with P(after_click) of the position (the last entry holds from there on) or P(after_skip). Down to the last click
    all was seen; below, backwards first: with what probability no click follows, were a position seen.
    """
    n, deepest = clicks.shape[0], after_click.shape[0] - 1
    seen = np.ones(n)
    silence = 1.0  # P(no click below | a position is seen and skipped)
    for i in range(n - 1, 0, -1):
        if clicks[i]:
            break
        silent = (1.0 - attraction[i]) * silence
        onward = after_click[min(i - 1, deepest)] if clicks[i - 1] else after_skip
        silence = onward * silent + (1.0 - onward)  # the bracket first: silent may be tiny, and onward 1
        seen[i] = onward * silent / silence
    for i in range(1, n):
        if not clicks[i]:
            seen[i] *= seen[i - 1]
    return seen


@kernel
def position_based(
    features: Floats, ranking: Ints, clicks: Flags, documents: Floats, users: Floats, forgetting: float
) -> tuple[Floats, Floats, Floats]:
    """P(seen | clicks) under the position-based model, and its tables after the list; a column per position, the first is 1."""
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
    """P(seen | clicks) under the dependent click model, and its tables after the list.

    Columns: going on after a click, per position, and last going on after a document that was not clicked.
    """
    documents, users = documents.copy(), users.copy()
    attraction = _attractions(features, ranking, documents)
    skip = users.shape[1] - 1
    onward = users[0] / users[1]
    seen = _cascade(clicks, attraction, onward[:skip], onward[skip])
    if forgetting >= 0.0:
        for i in range(clicks.shape[0] - 1):  # whether users went on after the last position cannot be known
            _count(users, min(i, skip - 1) if clicks[i] else skip, seen[i + 1], seen[i], forgetting)
        _regress(features, ranking, seen * (clicks - attraction), documents, forgetting)
    return seen, documents, users


@kernel
def dynamic_bayesian(
    features: Floats, ranking: Ints, clicks: Flags, documents: Floats, users: Floats, forgetting: float
) -> tuple[Floats, Floats, Floats]:
    """P(seen | clicks) under the dynamic Bayesian network, and its tables after the list.

    Columns: perseverance, and satisfaction by a clicked document. Who did not go on after a click was satisfied or gave up.
    """
    documents, users = documents.copy(), users.copy()
    attraction = _attractions(features, ranking, documents)
    perseverance, satisfaction = users[0, 0] / users[1, 0], users[0, 1] / users[1, 1]
    onward = perseverance * (1.0 - satisfaction)
    gave_up = (
        1.0 - satisfaction / (1.0 - onward) if onward < 1.0 else 0.0
    )  # P(not satisfied | did not go on after a click)
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
