"""Knots are learned from lists with feedback: bounded, repeatable, and stable for all kinds of features."""

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query, parse
from duelrank.core.types import same_arrays
from duelrank.kernels.random import derive
from duelrank.representation import BentLines, Distribution, Ramps, Steps
from duelrank.representation.base import knots_of
from duelrank.representation.curves import EVERY, HORIZON, different, moved

LEARNED = [Ramps(), BentLines(), Steps(), Distribution()]


def observed(representation, lists):
    """The memory after some lists, each a table of documents."""
    memory = representation.start(lists[0].shape[1])
    for step, features in enumerate(lists):
        memory = representation.observe(memory, features, step, derive(7, step))
    return memory


def draws(n_lists, make, n_documents=20):
    random = np.random.default_rng(5)
    return [make(random, n_documents).reshape(n_documents, -1) for _ in range(n_lists)]


class TestSample:
    def test_every_document_is_as_likely_in_it_as_any_other(self):
        taken = np.zeros(400)
        for seed in range(300):
            memory = Ramps(sample=50).start(1)
            for step in range(20):
                numbers = np.arange(20.0 * step, 20.0 * step + 20.0).reshape(-1, 1)
                memory = Ramps(sample=50).observe(memory, numbers, step, derive(seed, step))
            taken[memory["sample"][:, 0].astype(int)] += 1
        quarters = taken.reshape(4, 100).sum(axis=1) / taken.sum()
        # 15,000 draws: each quarter has a standard deviation below 0.004.
        np.testing.assert_allclose(quarters, 0.25, atol=0.016)

    def test_it_is_bounded_and_the_same_for_the_same_lists(self):
        lists = draws(100, lambda random, n: random.normal(size=(n, 3)))
        one, other = observed(BentLines(), lists), observed(BentLines(), lists)
        assert one["sample"].shape == (200, 3)
        assert int(one["seen"][0]) == 2000
        assert same_arrays(one, other)

    def test_it_forgets_documents_beyond_the_horizon(self):
        lists = [np.full((500, 1), float(step)) for step in range(4 * HORIZON // 500)]
        ages = len(lists) - observed(Ramps(), lists)["sample"][:, 0]
        mean = 500 * ages.mean()
        assert 0.7 * HORIZON < mean < 1.3 * HORIZON

    def test_only_documents_of_lists_that_were_learned_from_are_in_it(self):
        learner = Learner("curves >> mgd-dsp", n_features=2, seed=3)
        learned, ignored = np.full((3, 2), 4.0), np.full((3, 2), 9.0)
        for _ in range(5):
            learner.learn(learner.rank(Query("a", learned)), Feedback([True, False, False]))
            learner.rank(Query("b", ignored))
        assert (learner.state.memory["representation"]["sample"] == 4.0).all()


class TestShapes:
    @pytest.mark.parametrize("representation", LEARNED, ids=repr)
    @pytest.mark.parametrize(
        ("name", "make"),
        [
            ("constant", lambda random, n: np.full(n, 3.0)),
            ("three values", lambda random, n: random.integers(0, 3, n).astype(float)),
            ("mostly zero", lambda random, n: np.where(random.random(n) < 0.95, 0.0, random.lognormal(size=n))),
            ("long tail", lambda random, n: random.pareto(0.7, n)),
            ("an outlier", lambda random, n: np.where(random.random(n) < 0.004, 1e30, random.random(n))),
            ("beyond float32", lambda random, n: random.normal(size=n) * 1e300),
            ("tiny", lambda random, n: random.random(n) * 1e-310),
            ("from end to end", lambda random, n: np.where(random.random(n) < 0.5, -1.7e308, 1.7e308)),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_columns_are_finite_and_within_0_and_1(self, representation, name, make):
        lists = draws(200, make)
        memory = observed(representation, lists)
        knots = knots_of(memory)
        assert np.isfinite(knots).all()
        assert (np.diff(knots, axis=1) >= 0.0).all()
        columns = representation.apply(
            np.array([[-1.7e308], [0.0], [1.0], [1e30], [1.7e308], *lists[0].tolist()]), memory
        )
        assert np.isfinite(columns).all()
        assert columns.min() >= 0.0
        assert columns.max() <= 1.0

    def test_one_outlier_leaves_the_others_apart(self):
        lists = draws(200, lambda random, n: np.where(random.random(n) < 0.004, 1e30, random.random(n)))
        knots = knots_of(observed(Ramps(), lists))[0]
        np.testing.assert_allclose(knots, [0.01, 0.25, 0.5, 0.75, 0.99], atol=0.12)

    def test_a_value_that_most_documents_share_takes_one_knot(self):
        lists = draws(200, lambda random, n: np.where(random.random(n) < 0.9, 0.0, random.random(n)))
        assert len(np.unique(knots_of(observed(Ramps(), lists)))) == 5

    def test_three_values_are_told_apart(self):
        lists = draws(200, lambda random, n: random.integers(0, 3, n).astype(float))
        columns = Steps().apply(np.array([[0.0], [1.0], [2.0]]), observed(Steps(), lists))
        assert len(np.unique(columns, axis=0)) == 3

    def test_a_feature_that_few_documents_have_is_not_lost(self):
        """An exact match in one of 150 documents, and often in none of the sample."""
        lists = [np.zeros((150, 1)) for _ in range(64)]
        for number, features in enumerate(lists):
            features[number, 0] = 1.0
        for representation in (Ramps(), BentLines(), Steps(), Distribution()):
            columns = representation.apply(np.array([[0.0], [1.0]]), observed(representation, lists))
            assert (columns[1] > columns[0]).any(), representation

    def test_values_that_single_precision_cannot_tell_apart(self):
        lists = [1.7e9 + np.arange(60.0).reshape(-1, 1) for _ in range(16)]
        columns = BentLines().apply(1.7e9 + np.array([[0.0], [30.0], [59.0]]), observed(BentLines(), lists))
        assert np.diff(columns[:, 0]).min() > 0.1

    def test_steps_are_between_values(self):
        values = np.array([0.1, 0.2, 0.3, 0.7, 0.9])
        lists = draws(32, lambda random, n: random.choice(values, n))
        knots = knots_of(observed(Steps(), lists))[0, 1:-1]
        assert np.abs(knots[:, None] - values).min() > 0.04
        assert len(np.unique(Steps().apply(values[:, None], observed(Steps(), lists)), axis=0)) == 4


class TestMoves:
    def test_a_small_sample_does_not_move_knots(self):
        few = np.linspace(0.0, 0.2, 30, dtype=np.float32).reshape(-1, 1)
        knots = np.array([[0.0, 0.5, 1.0]])
        assert moved(knots, few, 2, np.array([[0.0, 0.2]]), full=False) is knots
        assert moved(knots, few, 2, np.array([[0.0, 0.2]]), full=True)[0, 2] < 0.3

    def test_a_feature_that_begins_to_vary_soon_has_knots(self):
        memory = BentLines().start(1)
        for step in range(1500):
            features = np.zeros((20, 1)) if step < 1100 else np.arange(20.0).reshape(-1, 1)
            memory = BentLines().observe(memory, features, step, derive(7, step))
            if step == 1099:
                assert np.ptp(knots_of(memory)) == 0.0
            if step == 1120:
                assert np.ptp(knots_of(memory)) > 10.0

    def test_knots_stay_while_the_distribution_does(self):
        lists = draws(6 * EVERY, lambda random, n: random.random(n), n_documents=5)
        early, late = observed(Ramps(), lists[:1024]), observed(Ramps(), lists)
        assert np.abs(knots_of(early) - knots_of(late)).max() < 0.15

    def test_knots_follow_a_distribution_that_drifts(self):
        before = draws(2 * EVERY, lambda random, n: random.random(n))
        after = draws(8 * EVERY, lambda random, n: 100.0 + random.random(n))
        memory = Ramps().start(1)
        for step, features in enumerate([*before, *after]):
            memory = Ramps().observe(memory, features, step, derive(7, step))
        assert knots_of(memory)[0, 1:].min() > 99.0  # a few of the old documents may be left

    def test_the_same_array_where_nothing_moves(self):
        sample = np.linspace(0.0, 1.0, 200, dtype=np.float32).reshape(-1, 1)
        knots = np.array([[0.0, 0.26, 0.5, 0.74, 1.0]])
        assert moved(knots, sample, 4, None) is knots
        off = np.array([[0.0, 0.1, 0.5, 0.74, 1.0]])
        np.testing.assert_allclose(moved(off, sample, 4, None), [[0.0, 0.25, 0.5, 0.75, 1.0]], atol=0.01)

    def test_halving_keeps_all_knots(self):
        sample = np.random.default_rng(0).random((200, 3)).astype(np.float32)
        two = moved(np.tile([0.0, 1.0], (3, 1)), sample, 2, None)
        four = moved(two, sample, 4, None)
        assert np.array_equal(four[:, ::2], two)

    def test_ends_are_known_within_a_unit(self):
        assert different(np.array([0.2, 0.5]), None).tolist() == [0.0, 0.2, 0.5, 1.0]

    def test_columns_cost_noise_so_curves_grow_slowly(self):
        memory, pieces = BentLines(pieces=8).start(1), {}
        for lists in (8, 16, 1024, 15 * EVERY, 16 * EVERY, 17 * EVERY, 16 * EVERY**2):
            memory = BentLines(pieces=8).observe(
                memory, np.linspace(0.0, 1.0, 50)[:, None], lists - 1, derive(1, lists)
            )
            pieces[lists] = knots_of(memory).shape[1] - 1
        assert list(pieces.values()) == [1, 2, 2, 2, 4, 4, 8]

    def test_a_ranker_grows_as_it_sees_more(self):
        learner = Learner("query-scaled >> ramps(pieces=8) >> pdgd", n_features=2, seed=1)
        random, widths = np.random.default_rng(0), {}
        for number in range(1, 130):
            query = Query("q", random.random((10, 2)))
            learner.learn(learner.rank(query), Feedback(random.random(10) < 0.3))
            widths[number] = len(learner.weights)
        assert [widths[number] for number in (15, 16, 31, 32, 63, 64, 129)] == [2, 4, 4, 8, 8, 16, 16]


def test_recipes_are_read_and_spelled():
    from duelrank.core.registry import spell

    for text in (
        "wmgd-dsp-curves",
        "query-ranks >> curves(bend=0.25) >> wmgd-dsp",
        "raw >> mgd",
        "steps >> pdgd",
    ):
        assert spell(parse(text)) == text
        assert parse(repr(parse(text))) == parse(text)
