"""An algorithm behind a representation: it learns curves, nothing in it knows, and no score changes when a curve gets new knots."""

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query, parse, simulate
from duelrank.core.errors import InvalidRecipe, ShapeMismatch
from duelrank.representation import BentLines, Chain, Distribution, QueryRanks, QueryScaled, Ramps, Raw, Steps
from duelrank.representation.base import knots_of, with_knots
from duelrank.testing import check_algorithm

SET = "synthetic(n_queries=30, n_features=6)"
CURVES = [Ramps(pieces=8), BentLines(pieces=8)]


def scores(representation, weights, memory, features):
    return representation.apply(features, memory) @ weights


def centred(values):
    return values - values.mean()


def knots(*rows):
    return Ramps().start(len(rows)) | {"knots": np.array(rows, float)}


class TestCarry:
    @pytest.mark.parametrize(("representation", "steps"), list(zip(CURVES, [(15, 31, 63), (15, 16383)], strict=True)))
    def test_unfolding_a_line_and_halving_pieces_changes_no_score(self, representation, steps):
        random = np.random.default_rng(1)
        features, sample = random.random((50, 3)), random.random((200, 3))
        memory, weights = representation.start(3, unit=True), random.normal(size=3)
        expected = scores(representation, weights, memory, features)
        for step in steps:
            seen = {**memory, "sample": sample.astype(np.float32), "seen": np.array([200])}
            after = representation.observe(seen, sample[:1], step, np.ones(4, np.uint64), QueryScaled())
            assert knots_of(after).shape[1] == 2 * knots_of(memory).shape[1] - 1
            weights, memory = representation.carry(weights, memory, after), after
            np.testing.assert_allclose(scores(representation, weights, memory, features), expected, atol=1e-14)

    @pytest.mark.parametrize("representation", CURVES, ids=repr)
    def test_a_curve_goes_through_its_heights_at_the_new_knots(self, representation):
        before, after = knots([0.0, 0.2, 0.5, 1.0]), knots([0.0, 0.3, 0.5, 0.9])
        weights = np.random.default_rng(0).normal(size=representation.n_columns(1, before))
        carried = representation.carry(weights, before, after)
        points = after["knots"].T
        was, now = (scores(representation, *each, points) for each in ((weights, before), (carried, after)))
        np.testing.assert_allclose(now - now[0], was - was[0], atol=1e-14)

    def test_there_and_back_is_the_same_curve_where_knots_were_only_added(self):
        few, many = knots([0.0, 0.5, 1.0]), knots([0.0, 0.25, 0.5, 0.75, 1.0])
        weights = np.array([0.3, -0.2, 1.0])
        back = BentLines().carry(BentLines().carry(weights, few, many), many, few)
        np.testing.assert_allclose(back, weights, atol=1e-14)

    def test_a_line_is_a_sum_of_ramps(self):
        memory = knots([0.0, 0.1, 0.6, 1.0])
        x = np.linspace(0.0, 1.0, 11).reshape(-1, 1)
        np.testing.assert_allclose(Ramps().apply(x, memory) @ [0.1, 0.5, 0.4], x[:, 0], atol=1e-15)

    def test_steps_keep_the_middle_of_each_piece(self):
        before, after = knots([0.0, 0.25, 0.5, 0.75, 1.0]), knots([0.0, 0.5, 0.6, 0.75, 1.0])
        weights = np.array([1.0, -2.0, 0.5])
        carried = Steps().carry(weights, before, after)
        middles = np.array([[0.55], [0.7], [0.9]])
        was, now = (scores(Steps(), *each, middles) for each in ((weights, before), (carried, after)))
        np.testing.assert_allclose(centred(now), centred(was), atol=1e-14)


class TestCurves:
    @pytest.mark.parametrize("recipe", ["ramps", "curves", "steps", "distribution", "query-scaled >> curves"])
    def test_the_curves_add_up_to_the_scores(self, recipe):
        learner = Learner(f"{recipe} >> pdgd", n_features=4, seed=2)
        random = np.random.default_rng(2)
        for _ in range(100):
            query = Query("q", random.lognormal(size=(12, 4)))
            learner.learn(learner.rank(query), Feedback(random.random(10) < 0.3))
        representation, memory = learner.algorithm.representation, learner.state.memory["representation"]
        features = random.lognormal(size=(12, 4))
        expected = representation.apply(features, memory) @ learner.weights
        seen = QueryScaled().apply(features, {}) if "query" in recipe else features
        curves = representation.curves(learner.weights, memory)
        total = sum(curve.at(seen[:, feature]) for feature, curve in enumerate(curves))
        np.testing.assert_allclose(centred(total), centred(expected), atol=1e-12)

    def test_a_curve_beyond_its_ends(self):
        line, level, stairs = (
            each.curves(np.array(weights), memory)[0]
            for each, weights, memory in (
                (Raw(), [2.0], {}),
                (Ramps(), [1.0, 2.0], knots([0.0, 1.0, 2.0])),
                (Steps(), [1.0], knots([0.0, 1.0, 2.0])),
            )
        )
        far = np.array([-5.0, 1.0, 5.0])
        assert line.at(far).tolist() == [-10.0, 2.0, 10.0]
        assert level.at(far).tolist() == [0.0, 1.0, 3.0]
        assert stairs.at(far).tolist() == [0.0, 0.0, 1.0]


class TestLearning:
    @pytest.mark.parametrize(
        "recipe",
        ["ramps >> nsgd-dsp", "steps >> pdgd", "distribution >> mgd-dsp"],
    )
    def test_conventions(self, recipe):
        check_algorithm(recipe)

    def test_on_a_scaled_set_scaling_changes_nothing(self):
        plain, scaled = (
            simulate(each, SET, "perfect", impressions=50) for each in ("mgd-dsp", "query-scaled >> mgd-dsp")
        )
        assert np.array_equal(plain.online, scaled.online)
        assert np.array_equal(plain.offline, scaled.offline)
        assert np.array_equal(plain.trajectory, scaled.trajectory)

    def test_before_the_first_knots_it_is_the_plain_ranker(self):
        plain, bent = (
            simulate(each, SET, "perfect", impressions=16) for each in ("mgd-dsp", "query-scaled >> curves >> mgd-dsp")
        )
        assert np.array_equal(plain.online, bent.online)

    def test_the_order_of_monotone_features_changes_nothing_for_ranks(self):
        random = np.random.default_rng(0)
        table = random.random((9, 3))
        learner = Learner("query-ranks >> mgd", n_features=3, weights=[1.0, 2.0, 3.0])
        assert np.array_equal(learner.best(Query("a", table)), learner.best(Query("a", np.exp(20.0 * table))))

    def test_a_list_is_learned_from_with_the_knots_that_it_was_ranked_with(self):
        """The same as if nothing had moved in between: what was learned is a change of curves, and is brought over."""
        recipe = parse("query-scaled >> ramps(pieces=2) >> pdgd")
        learner = Learner(recipe, n_features=2, seed=4)
        random = np.random.default_rng(4)
        late_query, late_clicks = Query("late", random.random((8, 2))), Feedback(np.arange(8) == 3)
        late = learner.rank(late_query)
        for _ in range(16):
            learner.learn(learner.rank(Query("q", random.random((8, 2)))), Feedback(random.random(8) < 0.4))
        before = learner.state
        assert knots_of(before.memory["representation"]).shape[1] == 3
        assert late.trace["knots"].shape[1] == 2
        learner.learn(late, late_clicks)
        memory = before.memory["representation"]
        old = with_knots(memory, late.trace["knots"])
        lines = Ramps().carry(before.weights, memory, old)
        alone = Learner("query-scaled >> pdgd", n_features=2, seed=4, weights=lines)
        alone.ranked, shown = 0, alone.observe(late_query, late.ranking)
        object.__setattr__(shown, "trace", {name: each for name, each in late.trace.items() if name != "knots"})
        alone.state = type(before)(lines, before.step, before.updates, alone.state.memory)
        alone.learn(shown, late_clicks)
        change = alone.weights - lines
        expected = before.weights + Ramps().carry(change, old, memory)
        np.testing.assert_allclose(learner.weights, expected, atol=1e-14)
        assert np.abs(change).max() > 0.0

    def test_curves_learn_a_bump_that_no_line_can(self):
        random = np.random.default_rng(3)

        def quality(recipe):
            learner = Learner(recipe, n_features=1, seed=3)
            for _ in range(1500):
                query = Query("q", random.random((10, 1)) * 100.0)
                impression = learner.rank(query)
                shown = query.features[impression.ranking, 0]
                learner.learn(impression, Feedback(np.abs(shown - 50.0) < 10.0))
            best = learner.best(Query("q", np.linspace(0.0, 100.0, 41).reshape(-1, 1)))
            return np.abs(best[:5] / 0.4 - 50.0).mean()

        assert quality("curves >> pdgd") < 15.0 < quality("query-scaled >> pdgd")


class TestRefusals:
    def test_what_cannot_be_combined(self):
        with pytest.raises(InvalidRecipe, match="has a representation already"):
            parse("raw >> mgd").__rrshift__(Raw())
        with pytest.raises(InvalidRecipe, match="must never change"):
            parse("ramps >> pairrank")
        parse("query-scaled >> pairrank")
        with pytest.raises(InvalidRecipe, match="learns from the documents"):
            Ramps() >> Steps()
        with pytest.raises(InvalidRecipe, match="as one chain"):
            Chain(QueryScaled(), Chain(Raw(), Ramps()))
        with pytest.raises(InvalidRecipe, match="a model for each query"):
            parse("raw >> dcm-kl-ucb")
        with pytest.raises(InvalidRecipe, match="'>>' puts a representation or a memory before"):
            parse("mgd >> raw")

    def test_another_number_of_features(self):
        learner = Learner("query-scaled >> curves >> mgd", n_features=3)
        with pytest.raises(ShapeMismatch, match="the ranker has 3 features, query 'q' has 2"):
            learner.rank(Query("q", np.zeros((2, 2))))

    def test_three_in_a_row(self):
        chain = QueryScaled() >> QueryRanks() >> Distribution()
        assert chain.domain == "query rank"
        assert parse(repr(chain)) == chain
