"""Thompson pairs: the belief narrows, is converted with the weights, and never becomes wider than at the start."""

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query, parse
from duelrank.algorithms.thompson_pairs import EVERY, SAMPLES
from duelrank.core.memory import for_ranking
from duelrank.core.randomness import stream
from duelrank.kernels.random import normals

RNG = stream(1, "documents")
QUERIES = [Query(f"q{n}", np.abs(normals(RNG, 8, 3))) for n in range(5)]


def taught(recipe: str, lists: int = 100) -> Learner:
    """Return a learner after lists whose users click on the document with the largest first feature."""
    learner = Learner(recipe, n_features=3)
    for number in range(lists):
        query = QUERIES[number % len(QUERIES)]
        shown = learner.rank(query)
        learner.learn(shown, Feedback(shown.ranking == query.features[:, 0].argmax()))
    return learner


@pytest.mark.parametrize("recipe", ["thompson-pairs", "thompson-pairs(covariances=0)", "curves >> thompson-pairs"])
def test_it_learns_and_becomes_more_certain(recipe):
    learner = taught(recipe)
    best = [int(learner.best(query)[0]) == query.features[:, 0].argmax() for query in QUERIES]
    assert all(best)
    start = parse(recipe).start(3, stream(1, "start")).memory["deviations"]
    assert learner.state.memory["deviations"][0] < start[0]


def test_lists_differ_only_as_far_as_the_belief_is_wide():
    certain, uncertain = taught("thompson-pairs(width=0.0)"), taught("thompson-pairs(width=5.0)", 10)
    lists = [{tuple(each.rank(QUERIES[0]).ranking.tolist()) for _ in range(20)} for each in (certain, uncertain)]
    assert len(lists[0]) == 1 < len(lists[1])


@pytest.mark.parametrize("recipe", ["thompson-pairs(drift=0.5)", "thompson-pairs(drift=0.5, covariances=0)"])
def test_the_belief_never_becomes_wider_than_at_the_start(recipe):
    learner, start = Learner(recipe, n_features=3), parse(recipe).start(3, stream(1, "start"))
    for _ in range(3 * EVERY):
        shown = learner.rank(QUERIES[0])
        learner.learn(shown, Feedback(np.zeros(len(shown.ranking), bool)))
    np.testing.assert_allclose(learner.state.memory["deviations"], start.memory["deviations"])
    np.testing.assert_allclose(learner.state.memory["belief"], start.memory["belief"])


def test_the_belief_is_converted_with_the_weights_and_starts_again_in_new_directions():
    algorithm = parse("thompson-pairs(prior=4.0)")
    state = taught("thompson-pairs(prior=4.0)").state
    change = np.array(
        [[1.0, 0.0, 0.0], [0.0, 0.6, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 2.0]]
    )  # the second becomes two columns
    memory = algorithm.carry_memory(state.memory, 4, lambda weights: change @ weights, stream(1, "carry"))
    covariance = state.memory["belief"] @ state.memory["belief"].T
    new = np.array([0.0, 0.8, -0.6, 0.0])  # orthogonal to all that the old columns can express
    found = memory["belief"] @ memory["belief"].T
    np.testing.assert_allclose(found, change @ covariance @ change.T + np.outer(new, new) / 4.0, atol=1e-12)
    np.testing.assert_allclose(memory["deviations"], np.sqrt(np.diag(found)))
    assert memory["samples"].shape == (SAMPLES, 4)


def test_a_belief_with_too_many_weights_is_diagonal():
    algorithm = parse("thompson-pairs(covariances=3)")
    assert [algorithm.start(n, stream(1, "start")).memory["belief"].ndim for n in (3, 4)] == [2, 1]
    full = algorithm.start(3, stream(1, "start")).memory
    wider = algorithm.carry_memory(full, 4, lambda weights: np.append(weights, 0.0), stream(1, "carry"))
    assert wider["belief"].shape == (4,)


def test_a_list_that_was_ranked_with_earlier_knots_moves_the_weights_by_the_converted_belief():
    """With a belief that starts again for such lists, a late click would move the weights as far as a first one."""
    learner = Learner("curves >> thompson-pairs(prior=1.0)", n_features=3)
    for number in range(200):
        query = QUERIES[number % len(QUERIES)]
        shown = learner.rank(query)
        if number == 12:
            late = shown  # ranked before the first knots
        learner.learn(shown, Feedback(shown.ranking == query.features[:, 0].argmax()))
    clicks, before = Feedback(np.arange(len(late.ranking)) == len(late.ranking) - 1), learner.state.weights
    learner.learn(late, clicks)
    moved = np.abs(learner.state.weights - before).sum()
    fresh = Learner("thompson-pairs(prior=1.0)", n_features=3)
    fresh.learn(fresh.rank(late.query), clicks)
    assert 0.0 < moved < 0.5 * np.abs(fresh.state.weights).sum()


def test_lists_of_other_systems_count_in_either_order():
    learner = Learner("thompson-pairs(balance=1.0, width=0.0)", n_features=3)
    shown = learner.observe(QUERIES[0], ranking=np.arange(8))
    learner.learn(shown, Feedback(np.arange(8) == 0))
    assert learner.state.weights.any()


def test_versions_do_not_contain_the_belief():
    algorithm = parse("curves >> thompson-pairs")
    memory = for_ranking(taught("curves >> thompson-pairs").state.memory, algorithm)
    assert {"deviations", "samples"} <= memory.keys()
    assert "belief" not in memory
