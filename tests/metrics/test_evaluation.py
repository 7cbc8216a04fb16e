"""A ranker on a whole split, and the discounted online reward."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import ShapeMismatch
from duelrank.core.randomness import stream
from duelrank.datasets import Split
from duelrank.metrics import DISCOUNT, MRR, P, evaluate, nDCG, online_performance, per_query


@pytest.fixture
def split(make_split) -> Split:
    rng = np.random.default_rng(0)
    return make_split([(rng.random((n, 3)), rng.integers(0, 3, n).tolist()) for n in (1, 4, 12, 7)])


class TestEvaluate:
    def test_each_query_is_ranked_by_its_scores(self, split):
        weights = np.array([1.0, -2.0, 0.5])
        values = per_query(weights, split, nDCG(10), stream(0, "ties"))
        for index, value in enumerate(values):
            query, labels = split.query(index), split.judgements(index)
            order = np.argsort(-(query.features @ weights))
            assert value == nDCG(10).of(labels[order], labels)
        assert evaluate(weights, split, nDCG(10), stream(0, "ties")) == pytest.approx(values.mean())

    def test_a_metric_may_be_given_as_its_text(self, split):
        weights = np.array([1.0, -2.0, 0.5])
        found = evaluate(weights, split, "nDCG@10", stream(0, "ties"))
        assert found == evaluate(weights, split, nDCG(10), stream(0, "ties"))

    def test_features_that_are_the_labels_rank_perfectly(self, make_split):
        split = make_split([(np.array([[0.0], [2.0], [1.0]]), [0, 2, 1]), (np.array([[1.0], [0.0]]), [1, 0])])
        assert evaluate(np.array([1.0]), split, nDCG(), stream(0, "ties")) == 1.0
        assert evaluate(np.array([-1.0]), split, MRR(), stream(0, "ties")) == 1 / 2

    def test_ties_are_broken_at_random_not_by_the_order_of_the_file(self, make_split):
        split = make_split([(np.zeros((4, 2)), [1, 0, 0, 0])])
        n = 4000
        hits = np.array([evaluate(np.zeros(2), split, P(1), stream(0, "ties", i)) for i in range(n)])
        chance = 1 / 4
        assert abs(hits.mean() - chance) < 4 * math.sqrt(chance * (1 - chance) / n)

    def test_the_same_stream_gives_the_same_ties(self, make_split):
        split = make_split([(np.zeros((9, 2)), [1, 0, 2, 0, 0, 1, 0, 0, 0])])
        values = [evaluate(np.zeros(2), split, nDCG(), stream(0, "ties", 3)) for _ in range(2)]
        assert values[0] == values[1]

    @pytest.mark.parametrize("weights", [np.zeros(2), np.zeros(4), np.zeros((3, 1)), np.zeros(0)])
    def test_weights_of_another_shape_are_refused(self, split, weights):
        with pytest.raises(ShapeMismatch, match="3 features"):
            evaluate(weights, split, nDCG(), stream(0, "ties"))

    def test_no_queries_have_no_mean(self):
        nothing = Split(np.empty((0, 3)), np.empty(0, np.int8), np.zeros(1, np.int64), np.empty(0, "S1"))
        assert math.isnan(evaluate(np.zeros(3), nothing, nDCG(), stream(0, "ties")))


class TestOnlinePerformance:
    @given(st.lists(st.floats(0, 1), max_size=50), st.floats(0, 1))
    def test_it_is_the_discounted_sum(self, values, discount):
        expected = math.fsum(value * discount**t for t, value in enumerate(values))
        assert online_performance(np.array(values), discount) == pytest.approx(expected)

    def test_the_tables_discount(self):
        n = 10_000
        assert DISCOUNT == 0.9995
        assert online_performance(np.ones(n)) == pytest.approx((1 - DISCOUNT**n) / (1 - DISCOUNT))

    def test_integers_and_strided_views_are_fine(self):
        assert online_performance(np.array([1, 9, 1, 9])[::2], 0.5) == 1.5
