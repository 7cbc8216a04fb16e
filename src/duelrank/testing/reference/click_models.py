"""Slow twins of `duelrank.kernels.click_models`: the posterior is summed over every depth to which a user may have looked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Tables = tuple[Floats, Floats, Floats]


def position_based(
    features: Floats, ranking: Any, clicks: Any, documents: Floats, users: Floats, forgetting: float
) -> Tables:
    """P(seen | clicks) under the position-based model, and its tables after the list."""
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
    """P(seen | clicks) under the dependent click model, and its tables after the list."""
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
    """P(seen | clicks) under the dynamic Bayesian network, and its tables after the list."""
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
    """P(seen | clicked or not) of one position, by the joint probabilities; what was clicked was seen, however unlikely."""
    if clicked:
        return 1.0
    unattracted, unseen = chance * (1 - attraction), 1 - chance
    return unattracted / (unattracted + unseen)


def _by_depth(clicks: Any, attraction: Floats, onward: list[float]) -> Floats:
    """P(seen | clicks): weigh each number of positions that may have been looked at by its joint probability with the clicks.

    All factors down to the last click are the same for each, and left out: they may be zero where users do what they never do.
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
