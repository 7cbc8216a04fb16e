"""Pairs of clicked and unclicked documents, from lists of any system."""

from __future__ import annotations

import numpy as np
import pytest

from duelrank.algorithms import LogPairs
from duelrank.core.randomness import stream
from duelrank.core.types import Feedback, Impression, Query, State
from duelrank.projection import LastClick, WholeList

QUERY = Query("q", np.random.default_rng(3).random((8, 4)))
RANKING = np.array([6, 1, 4, 0, 7])
WEIGHTS = np.array([0.5, -1.0, 0.25, 0.0])


def mean_over_pairs(clicks: list[bool], seen: list[float]) -> np.ndarray:
    """Σ P(seen) ∇ log P(i ≻ j) / Σ P(seen), pair by pair."""
    shown = QUERY.features[RANKING]
    total, count = np.zeros(4), 0.0
    for i, clicked in enumerate(clicks):
        for j, other in enumerate(clicks):
            if clicked and not other:
                apart = shown[i] - shown[j]
                total += seen[j] * apart / (1.0 + np.exp(WEIGHTS @ apart))
                count += seen[j]
    return total / count


@pytest.mark.parametrize("clicks", [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1]])
def test_a_list_counts_once_however_many_pairs_it_has(clicks):
    flags = [bool(click) for click in clicks]
    impression = Impression(QUERY, RANKING)
    whole, _ = LogPairs(WholeList()).gradient(State(WEIGHTS), impression, Feedback(flags), stream(1, "learn"))
    assert whole == pytest.approx(mean_over_pairs(flags, [1.0] * 5))
    last = max(np.flatnonzero(flags))
    near, _ = LogPairs(LastClick(beyond=1)).gradient(State(WEIGHTS), impression, Feedback(flags), stream(1, "learn"))
    assert near == pytest.approx(mean_over_pairs(flags, [float(position <= last + 1) for position in range(5)]))


@pytest.mark.parametrize("clicks", [[False] * 5, [True] * 5])
def test_without_a_pair_nothing_moves_but_users_are_known_better(clicks):
    after = LogPairs().learn(State(WEIGHTS), Impression(QUERY, RANKING), Feedback(clicks), stream(1, "learn"))
    assert np.array_equal(after.weights, WEIGHTS)
    assert (after.step, after.updates) == (1, 0)
    assert after.of("examination").memory


@pytest.mark.parametrize(("leave", "least", "most"), [(1.0, 0.0, 0.5), (0.0, 0.5, 1.0)])
def test_what_is_below_a_click_counts_by_how_often_users_stay(leave, least, most):
    """Every document is clicked in one of two cases by those who see it."""
    algorithm, state, rng = LogPairs(), State(np.zeros(4)), np.random.default_rng(1)
    for number in range(500):
        clicks = rng.random(5) < 0.5
        if clicks.any() and rng.random() < leave:
            clicks[np.argmax(clicks) + 1 :] = False
        impression = Impression(QUERY, rng.permutation(8)[:5])
        state = algorithm.learn(state, impression, Feedback(clicks), stream(number, "learn"))
    users, top = state.of("examination").memory, Feedback([True, False, False, False, False])
    assert least < algorithm.examination.weights(users, Impression(QUERY, RANKING), top)[1] < most


def test_by_itself_it_shows_its_best_list():
    algorithm = LogPairs()
    shown = algorithm.rank(State(WEIGHTS), QUERY, 5, stream(1, "rank")).ranking
    assert np.array_equal(shown, np.argsort(-(QUERY.features @ WEIGHTS))[:5])
