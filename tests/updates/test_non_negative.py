"""Weights that stay at 0 or above."""

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query
from duelrank.core.errors import InvalidValue
from duelrank.core.types import State
from duelrank.updates import Momentum, NonNegative, Step


def test_it_moves_and_then_sets_what_is_below_0_to_0():
    state = State(np.array([1.0, 0.25, 0.0]))
    weights, memory = NonNegative(Step(learning_rate=0.5)).move(state, np.array([1.0, -2.0, -1.0]))
    assert weights.tolist() == [1.5, 0.0, 0.0]
    assert not weights.flags.writeable
    assert memory == {}


def test_it_keeps_the_memory_of_its_step():
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


def test_it_allows_what_its_step_allows():
    assert NonNegative(AtMost1()).allowed(np.array([-1.0, 0.5, 3.0])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    "recipe",
    ["mgd(step=NonNegative())", "mgd(step=Momentum(step=NonNegative()))", "query-scaled >> pdgd(step=NonNegative())"],
)
def test_a_learner_starts_with_weights_that_it_can_have(recipe):
    with pytest.raises(InvalidValue, match=r"NonNegative.*cannot start with the weight -0.5 of 'b'.* is 0"):
        Learner(recipe, weights={"a": 1.0, "b": -0.5})
    with pytest.raises(InvalidValue, match="cannot start with the weight -2, to which"):
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
