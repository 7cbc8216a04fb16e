"""The step: its length is the formula's, at every state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe
from duelrank.core.types import Feedback, Query, State
from duelrank.learner import Learner
from duelrank.updates import Step

RATES = st.floats(0.0, 10.0)
DECAYS = st.floats(0.5, 1.0)


def state_at(step: int = 0, updates: int = 0) -> State:
    return State(np.array([1.0, -2.0, 0.5]), step, updates)


class TestRate:
    @given(RATES, DECAYS, st.none() | st.floats(0.1, 1e4), st.integers(0, 10_000), st.integers(0, 100))
    def test_it_is_the_formula(self, rate, decay, slow_down, step, updates):
        slowed = 1.0 if slow_down is None else math.sqrt(1 + step / slow_down)
        found = Step(rate, decay, slow_down).rate(state_at(step, updates))
        assert found == pytest.approx(rate * decay**updates / slowed)

    def test_decay_counts_updates_and_slow_down_counts_impressions(self):
        assert Step(1.0, decay=0.5).rate(state_at(step=9, updates=2)) == 0.5**2
        assert Step(1.0, slow_down=100).rate(state_at(step=100, updates=0)) == pytest.approx(1 / math.sqrt(2))


class TestMove:
    @given(RATES, st.lists(st.floats(-5, 5), min_size=3, max_size=3))
    def test_the_weights_move_by_rate_times_gradient(self, rate, gradient):
        state = state_at()
        before = state.weights.copy()
        moved, _ = Step(rate).move(state, np.array(gradient))
        assert np.array_equal(moved, before + rate * np.array(gradient))
        assert np.array_equal(state.weights, before)

    def test_a_run_shortens_its_steps_by_the_decay(self):
        learner, norms = Learner("dbgd(learning_rate=1, decay=0.5)", 3), []
        for _ in range(60):
            before = learner.weights
            impression = learner.rank(Query("q", np.eye(3)))
            learner.learn(impression, Feedback([True, False, False]))
            if learner.weights is not before:
                norms.append(np.linalg.norm(learner.weights - before))
        assert len(norms) > 5
        np.testing.assert_allclose(norms, [0.5**update for update in range(len(norms))], rtol=1e-6)


@pytest.mark.parametrize(
    "bad", [{"learning_rate": -0.1}, {"decay": 1.5}, {"decay": -1}, {"slow_down": 0}, {"learning_rate": float("nan")}]
)
def test_values_out_of_range_are_refused_with_the_range(bad):
    with pytest.raises(InvalidRecipe, match=r"a number (from|at least)"):
        Step(**bad)
