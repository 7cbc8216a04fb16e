"""Features come and go: those that stay keep their curves, new ones start with nothing."""

import numpy as np
import pytest

from duelrank.algorithms import Algorithm
from duelrank.core.grammar import parse
from duelrank.core.randomness import stream_key
from duelrank.core.types import Feedback, Query
from duelrank.kernels.random import derive
from duelrank.representation import BentLines, Distribution, QueryScaled, Ramps, Raw, Representation, Steps
from duelrank.representation.base import by_feature, knots_of

LEARNING = [BentLines(), Ramps(), Steps(), Distribution(pieces=4)]


def learned(representation, n_lists, n_features=3):
    """Weights and memory after lists of documents, which have values on other scales than 0 to 1."""
    rng, memory = np.random.default_rng(3), representation.start(n_features)
    for step in range(n_lists):
        documents = rng.lognormal(size=(8, n_features)) * [1.0, 100.0, 0.01][:n_features]
        memory = representation.observe(memory, documents, step, derive(stream_key(1, "x"), step))
    return rng.normal(size=representation.n_columns(n_features, memory)), memory


@pytest.mark.parametrize(
    "representation", [*LEARNING, *(QueryScaled() >> each for each in LEARNING), QueryScaled(), Raw()]
)
@pytest.mark.parametrize("n_lists", [2, 40])
def test_features_that_stay_keep_their_scores_and_new_ones_add_nothing(representation, n_lists):
    weights, memory = learned(representation, n_lists)
    documents = np.random.default_rng(4).lognormal(size=(9, 3)) * [1.0, 100.0, 0.01]
    kept = [2, 0]
    after, selected = representation.selected(weights, memory, np.array([2, 0, -1]))
    blind = by_feature(weights, 3) * [[1.0], [0.0], [1.0]]
    before = representation.apply(documents, memory) @ blind.T.ravel()
    with_new = np.column_stack([documents[:, kept], np.arange(9.0)])
    assert representation.apply(with_new, selected) @ after == pytest.approx(before)
    assert len(representation.curves(after, selected)) == 3


@pytest.mark.parametrize("representation", LEARNING)
def test_a_new_feature_gets_knots_at_the_next_check(representation):
    weights, memory = learned(representation, 40)
    _, memory = representation.selected(weights, memory, np.array([0, 1, 2, -1]))
    assert not knots_of(memory)[3].any()
    before = knots_of(memory)
    rng = np.random.default_rng(5)
    for step in range(40, 64):
        documents = np.column_stack([rng.lognormal(size=(8, 3)) * [1.0, 100.0, 0.01], 50.0 + rng.random(8)])
        memory = representation.observe(memory, documents, step, derive(stream_key(1, "x"), step))
    after = knots_of(memory)
    assert after[3, -1] > 50.0
    assert (np.diff(after[3]) >= 0.0).all()
    carried = representation.carry(np.ones(representation.n_columns(4, {"knots": before})), {"knots": before}, memory)
    assert np.isfinite(carried).all()
    assert np.isfinite(representation.carry(carried, memory, {"knots": before})).all(), "a list from before is late"


@pytest.mark.parametrize("representation", [QueryScaled() >> each for each in LEARNING])
def test_where_all_values_are_between_0_and_1_a_new_feature_counts_at_once(representation):
    weights, memory = learned(representation, 40)
    after, memory = representation.selected(weights, memory, np.array([0, -1]))
    columns = by_feature(representation.apply(np.array([[1.0, 0.0], [2.0, 8.0]]), memory), 2)
    assert columns[1, 1].max() > columns[0, 1].max()
    assert len(after) == representation.n_columns(2, memory)


@pytest.mark.parametrize("representation", LEARNING)
def test_with_no_feature_left_all_starts_anew(representation):
    weights, memory = representation.selected(*learned(representation, 40), np.array([-1, -1]))
    assert np.isnan(knots_of(memory)).all()
    assert memory["sample"].shape == (0, 2)
    assert weights.tolist() == [0.0, 0.0]


def test_learning_goes_on_with_the_selected_state():
    algorithm = parse("query-scaled >> curves >> pdgd", Algorithm)
    state, rng = algorithm.start(2, derive(stream_key(1, "start"), 0)), np.random.default_rng(6)

    def go_on(state, n_features, steps):
        for step in steps:
            fresh = derive(stream_key(1, "rank"), step)
            impression = algorithm.rank(state, Query("", rng.random((6, n_features))), 4, fresh)
            state = algorithm.learn(state, impression, Feedback([0, 1, 0, 0]), derive(stream_key(1, "learn"), step))
        return state

    state = go_on(state, 2, range(40))
    weights, memory = algorithm.representation.selected(
        state.weights, state.memory["representation"], np.array([1, -1, 0])
    )
    base = algorithm.base.start(len(weights), derive(stream_key(1, "start"), 0)).memory
    state = go_on(
        type(state)(weights, state.step, state.updates, {**base, "representation": memory}), 3, range(40, 140)
    )
    assert algorithm.n_features(state) == 3
    assert isinstance(algorithm.representation, Representation)
