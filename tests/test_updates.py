"""Update rules: the formula of the step, and weights that stay at 0 or above."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.types import Feedback, Query, State
from duelrank.learner import Learner
from duelrank.updates import Momentum, NonNegative, Step

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


def test_non_negative_moves_and_then_sets_weights_below_0_to_0():
    state = State(np.array([1.0, 0.25, 0.0]))
    weights, memory = NonNegative(Step(learning_rate=0.5)).move(state, np.array([1.0, -2.0, -1.0]))
    assert weights.tolist() == [1.5, 0.0, 0.0]
    assert not weights.flags.writeable
    assert memory == {}


def test_non_negative_keeps_the_memory_of_its_step():
    rule, state = NonNegative(Momentum(0.5, Step(1.0))), State(np.zeros(2))
    weights, memory = rule.move(state, np.array([1.0, -1.0]))
    assert weights.tolist() == [0.5, 0.0]
    assert memory["step"]["velocity"].tolist() == [0.5, -0.5]
    weights, _ = rule.move(State(weights, memory=memory), np.array([0.0, 1.0]))
    assert weights.tolist() == [0.75, 0.25]


class AtMost1(Step):
    """A step that ends at 1."""

    def allowed(self, weights):
        return np.minimum(weights, 1.0)


def test_non_negative_allows_what_its_step_allows():
    assert NonNegative(AtMost1()).allowed(np.array([-1.0, 0.5, 3.0])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "recipe",
    ["mgd(step=NonNegative())", "mgd(step=Momentum(step=NonNegative()))", "query-scaled >> pdgd(step=NonNegative())"],
)
def test_a_learner_starts_with_weights_that_it_can_have(recipe):
    with pytest.raises(InvalidValue, match=r"NonNegative.*cannot start with the weight -0.5 of 'b'.* is 0"):
        Learner(recipe, weights={"a": 1.0, "b": -0.5})
    with pytest.raises(InvalidValue, match="cannot start with the weight -2, which its updates"):
        Learner(recipe, weights=[-2.0])
    assert Learner(recipe, weights=[0.0, 3.0]).weights.tolist() == [0.0, 3.0]
    assert Learner("mgd", weights=[-2.0]).weights.tolist() == [-2.0]


@pytest.mark.parametrize("algorithm", ["wmgd", "pdgd", "mgd-dsp"])
def test_a_learner_switches_a_harmful_feature_off(algorithm):
    """Clicks go to documents that the second feature puts last."""
    plain = Learner(algorithm, 2, seed=3)
    kept = Learner(f"{algorithm}(step=NonNegative(step=Step(learning_rate=0.1)))", 2, seed=3)
    draw = np.random.default_rng(3)
    for number in range(200):
        features = draw.random((10, 2))
        for learner in (plain, kept):
            impression = learner.rank(Query(str(number), features))
            shown = features[impression.ranking]
            learner.learn(impression, Feedback(shown[:, 0] - shown[:, 1] > 0.5))
            assert learner is plain or (learner.weights >= 0.0).all()
    assert plain.weights[1] < 0.0
    assert kept.weights[1] == 0.0 < kept.weights[0]
