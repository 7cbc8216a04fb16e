"""Weights that stay at 0 or above."""

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query
from duelrank.types import State
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
