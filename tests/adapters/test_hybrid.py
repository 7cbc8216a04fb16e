"""The features of hybrid search, and the recipe that learns their weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank import Feedback, Learner, Query
from duelrank.adapters.hybrid import RECIPE, table
from duelrank.core.errors import InvalidValue
from duelrank.export import LinearModel, export
from duelrank.representation import QueryScaled

hits = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-40, 40).map(lambda n: n / 8.0), max_size=8)


def test_documents_come_in_the_order_in_which_they_are_found():
    documents, features = table({"words": {"b": 2.0, "a": 6.0, "c": 3.0}, "vectors": {"d": 0.5, "a": 0.25}})
    assert documents == ["b", "a", "c", "d"]
    assert features.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.25, 0.0], [0.0, 1.0]]


def test_what_is_found_counts_1_where_all_scores_are_equal_and_0_where_it_is_not():
    assert table({"one": {"a": 3.0}, "two": {"b": 0.0, "c": 0.0}})[1].tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]


def test_a_sub_query_that_finds_nothing():
    documents, features = table({"words": {}, "vectors": {"a": 1.0, "b": 2.0}})
    assert documents == ["a", "b"]
    assert features.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert table({"words": {}, "vectors": {}})[1].shape == (0, 2)


@given(st.lists(hits, min_size=1, max_size=4).filter(any))
def test_scaled_again_features_differ_by_a_constant_only(sub_queries):
    _, features = table({str(number): each for number, each in enumerate(sub_queries)})
    change = QueryScaled().apply(features, {}) - features
    assert (change == change[0]).all()


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_scores_are_numbers(score):
    with pytest.raises(InvalidValue, match="scores of 'vectors'"):
        table({"words": {"a": 1.0}, "vectors": {"a": score, "b": 1.0}})


def test_scores_of_any_size():
    _, features = table({"words": {"a": -1.7e308, "b": 1.7e308, "c": 0.0}})
    assert features[:, 0].tolist() == [0.0, 1.0, 0.5]


def test_the_recipe_learns_weights_that_can_be_exported():
    """Users click what the second score puts first."""
    learner, draw = Learner(RECIPE, weights={"words": 1.0, "vectors": 0.0}, seed=3), np.random.default_rng(3)
    for number in range(300):
        scores = {name: dict(zip("abcdefgh", draw.random(8).tolist(), strict=True)) for name in ("words", "vectors")}
        _, features = table(scores)
        impression = learner.rank(Query(str(number), features))
        learner.learn(impression, Feedback(features[impression.ranking, 1] == 1.0))
        assert (learner.weights >= 0.0).all()
    assert learner.weights[1] > 3.0 * learner.weights[0]
    assert export(LinearModel.from_snapshot(learner.snapshot(), "shop", learner.feature_names), "opensearch-hybrid")
