"""Metrics: formulas, bounds, and the numbers of ir-measures; evaluation of a ranker on a split, and online performance."""

from __future__ import annotations

import itertools
import math
import shutil
from math import log2

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe, ShapeMismatch
from duelrank.core.randomness import stream
from duelrank.datasets import Split
from duelrank.metrics import DISCOUNT, ERR, MAP, MRR, P, nDCG, offline_performance, online_performance, per_query

METRICS = [nDCG(), nDCG(gain="linear"), MAP(), MRR(), ERR(), P()]
CUTOFFS = [1, 3, 10]
GRADES = st.lists(st.integers(0, 4), min_size=1, max_size=14)


def grades(values) -> np.ndarray:
    return np.array(values, np.int8)


def measure(metric, shown, labels=None) -> float:
    return metric.of(grades(shown), grades(shown if labels is None else labels))


class TestFormulas:
    def test_ndcg(self):
        dcg = (2**2 - 1) / log2(2) + (2**1 - 1) / log2(4)
        best = (2**2 - 1) / log2(2) + (2**1 - 1) / log2(3)
        assert measure(nDCG(), [2, 0, 1]) == pytest.approx(dcg / best)

    def test_linear_ndcg(self):
        assert measure(nDCG(gain="linear"), [0, 3]) == pytest.approx((3 / log2(3)) / (3 / log2(2)))

    def test_the_ideal_counts_all_documents_of_the_query_not_only_the_shown_ones(self):
        assert measure(nDCG(), [1], [1, 4]) == pytest.approx((2**1 - 1) / ((2**4 - 1) / log2(2) + (2**1 - 1) / log2(3)))
        assert measure(nDCG @ 1, [1], [1, 4]) == pytest.approx((2**1 - 1) / (2**4 - 1))
        assert measure(MAP(), [1, 0], [1, 0, 1]) == pytest.approx((1 / 1) / 2)

    def test_mrr(self):
        assert measure(MRR(), [0, 0, 2, 1]) == pytest.approx(1 / 3)
        assert measure(MRR @ 2, [0, 0, 2, 1]) == 0.0

    def test_map(self):
        assert measure(MAP(), [1, 0, 2]) == pytest.approx((1 / 1 + 2 / 3) / 2)

    def test_err(self):
        first, second = (2**1 - 1) / 2**2, (2**2 - 1) / 2**2
        assert measure(ERR(max_grade=2), [1, 2]) == pytest.approx(first + (1 - first) * second / 2)

    def test_precision_counts_a_short_list_as_filled_up(self):
        assert measure(P @ 10, [1, 0, 4]) == pytest.approx(2 / 10)
        assert measure(P(), [1, 0, 4]) == pytest.approx(2 / 3)


class TestInvariants:
    @pytest.mark.parametrize("metric", METRICS, ids=repr)
    @given(GRADES, st.none() | st.integers(1, 20))
    def test_between_zero_and_one_and_zero_where_nothing_is_relevant(self, metric, labels, cutoff):
        metric = metric if cutoff is None else metric @ cutoff
        value = measure(metric, labels)
        assert 0.0 <= value <= 1.0 + 1e-12
        assert measure(metric, [0] * len(labels)) == 0.0
        if not any(labels):
            assert value == 0.0

    @pytest.mark.parametrize("metric", METRICS, ids=repr)
    @pytest.mark.parametrize("labels", [[0, 1, 2], [4, 0, 1, 1], [0, 0, 3, 0]])
    def test_no_order_beats_the_best_one(self, metric, labels):
        best = measure(metric, sorted(labels, reverse=True))
        for order in itertools.permutations(labels):
            assert measure(metric, order) <= best + 1e-12

    @given(GRADES.filter(any), st.integers(1, 20), st.sampled_from(["exponential", "linear"]))
    def test_the_best_order_has_ndcg_one(self, labels, cutoff, gain):
        assert measure(nDCG(cutoff, gain), sorted(labels, reverse=True)) == pytest.approx(1.0)

    @pytest.mark.parametrize("metric", METRICS, ids=repr)
    @given(GRADES, st.integers(1, 10), st.data())
    def test_what_stands_below_the_cutoff_does_not_matter(self, metric, labels, cutoff, data):
        below = data.draw(st.permutations(labels[cutoff:]))
        assert measure(metric @ cutoff, labels) == measure(metric @ cutoff, labels[:cutoff] + below)

    @pytest.mark.parametrize("metric", METRICS, ids=repr)
    @given(GRADES)
    def test_a_cutoff_past_the_end_is_none(self, metric, labels):
        wide = measure(metric @ 100, labels)
        if isinstance(metric, P):  # a precision at 100 is out of 100
            assert wide == pytest.approx(np.count_nonzero(labels) / 100)
        else:
            assert wide == measure(metric, labels)

    @pytest.mark.parametrize("metric", METRICS, ids=repr)
    def test_an_empty_list_is_worth_nothing(self, metric):
        assert measure(metric, [], [1, 0]) == 0.0
        assert measure(metric, [], []) == 0.0

    @pytest.mark.parametrize("metric", METRICS, ids=repr)
    @given(GRADES, st.data())
    def test_swapping_a_better_document_upwards_never_hurts(self, metric, labels, data):
        high = data.draw(st.integers(0, len(labels) - 1))
        low = data.draw(st.integers(high, len(labels) - 1))
        if labels[low] > labels[high]:
            swapped = list(labels)
            swapped[high], swapped[low] = labels[low], labels[high]
            assert measure(metric, swapped) >= measure(metric, labels) - 1e-12

    @pytest.mark.parametrize("cutoff", [0, -1, 2.5, "10", True])
    def test_a_cutoff_is_a_whole_number_from_one_up(self, cutoff):
        with pytest.raises(InvalidRecipe, match="a whole number from 1 to 1,000,000 or None"):
            nDCG(cutoff=cutoff)

    def test_err_stays_a_probability(self):
        assert 0.0 <= measure(ERR(max_grade=1), [4, 4]) <= 1.0


def reference(measure, queries) -> list[float]:
    """Values of ir-measures, one per query; it sorts by score, so shown lists get falling scores."""
    judged, run = [], []
    for number, (shown, rest) in enumerate(queries):
        for position, grade in enumerate([*shown, *rest]):
            judged.append(ir_measures.Qrel(str(number), f"d{position}", int(grade)))
        for position in range(len(shown)):
            run.append(ir_measures.ScoredDoc(str(number), f"d{position}", -float(position)))
    found = {value.query_id: value.value for value in ir_measures.iter_calc([measure], judged, run)}
    return [found[str(number)] for number in range(len(queries))]


def lists() -> list[tuple[list[int], list[int]]]:
    """Random (shown, not shown) grades, with every corner: nothing relevant, one document, shorter than any cutoff."""
    rng = np.random.default_rng(0)
    corners = [([0], []), ([1], []), ([4], []), ([0] * 12, []), ([0, 0], [3]), ([0] * 11 + [2], []), ([4] * 12, [4])]
    random = [
        (rng.integers(0, 5, rng.integers(1, 15)).tolist(), rng.integers(0, 5, rng.integers(0, 6)).tolist())
        for _ in range(60)
    ]
    sparse = [
        ((rng.random(12) < 0.1).astype(int).tolist(), (rng.random(3) < 0.3).astype(int).tolist()) for _ in range(20)
    ]
    return corners + random + sparse


class TestAgainstIrMeasures:
    @pytest.mark.parametrize("cutoff", CUTOFFS)
    @pytest.mark.parametrize(
        ("metric", "measure"),
        [
            (nDCG(gain="linear"), lambda k: ir_measures.nDCG @ k),
            (MAP(), lambda k: ir_measures.AP @ k),
            (MRR(), lambda k: ir_measures.RR @ k),
            (P(), lambda k: ir_measures.P @ k),
        ],
        ids=lambda value: repr(value) if not callable(value) else "",
    )
    def test_cut(self, metric, measure, cutoff):
        self.compare(metric @ cutoff, measure(cutoff))

    @pytest.mark.parametrize(
        ("metric", "measure"),
        [(nDCG(gain="linear"), ir_measures.nDCG), (MAP(), ir_measures.AP), (MRR(), ir_measures.RR)],
        ids=repr,
    )
    def test_whole_list(self, metric, measure):
        self.compare(metric, measure)

    @pytest.mark.skipif(shutil.which("perl") is None, reason="ir-measures computes these two with a Perl script")
    @pytest.mark.parametrize("cutoff", CUTOFFS)
    @pytest.mark.parametrize(
        ("metric", "measure"),
        [(nDCG(), lambda k: ir_measures.nDCG(dcg="exp-log2") @ k), (ERR(max_grade=4), lambda k: ir_measures.ERR @ k)],
        ids=["nDCG()", "ERR()"],
    )
    def test_exponential_gain(self, metric, measure, cutoff):
        self.compare(metric @ cutoff, measure(cutoff), tolerance=0.5e-5 + 1e-9)  # the script prints 5 decimals

    @staticmethod
    def compare(metric, measure, tolerance=1e-9):
        queries = lists()
        ours = [metric.of(grades(shown), grades([*shown, *rest])) for shown, rest in queries]
        np.testing.assert_allclose(ours, reference(measure, queries), atol=tolerance)


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
        assert offline_performance(weights, split, nDCG(10), stream(0, "ties")) == pytest.approx(values.mean())

    def test_a_metric_may_be_given_as_its_text(self, split):
        weights = np.array([1.0, -2.0, 0.5])
        found = offline_performance(weights, split, "nDCG@10", stream(0, "ties"))
        assert found == offline_performance(weights, split, nDCG(10), stream(0, "ties"))

    def test_features_that_are_the_labels_rank_perfectly(self, make_split):
        split = make_split([(np.array([[0.0], [2.0], [1.0]]), [0, 2, 1]), (np.array([[1.0], [0.0]]), [1, 0])])
        assert offline_performance(np.array([1.0]), split, nDCG(), stream(0, "ties")) == 1.0
        assert offline_performance(np.array([-1.0]), split, MRR(), stream(0, "ties")) == 1 / 2

    def test_ties_are_broken_at_random_not_by_the_order_of_the_file(self, make_split):
        split = make_split([(np.zeros((4, 2)), [1, 0, 0, 0])])
        n = 4000
        hits = np.array([offline_performance(np.zeros(2), split, P(1), stream(0, "ties", i)) for i in range(n)])
        chance = 1 / 4
        assert abs(hits.mean() - chance) < 4 * math.sqrt(chance * (1 - chance) / n)

    def test_the_same_stream_gives_the_same_ties(self, make_split):
        split = make_split([(np.zeros((9, 2)), [1, 0, 2, 0, 0, 1, 0, 0, 0])])
        values = [offline_performance(np.zeros(2), split, nDCG(), stream(0, "ties", 3)) for _ in range(2)]
        assert values[0] == values[1]

    @pytest.mark.parametrize("weights", [np.zeros(2), np.zeros(4), np.zeros((3, 1)), np.zeros(0)])
    def test_weights_of_another_shape_are_refused(self, split, weights):
        with pytest.raises(ShapeMismatch, match="3 features"):
            offline_performance(weights, split, nDCG(), stream(0, "ties"))

    def test_no_queries_have_no_mean(self):
        nothing = Split(np.empty((0, 3)), np.empty(0, np.int8), np.zeros(1, np.int64), np.empty(0, "S1"))
        assert math.isnan(offline_performance(np.zeros(3), nothing, nDCG(), stream(0, "ties")))


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
