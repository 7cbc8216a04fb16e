"""Rankers that are not linear: what they learn, what works for them, and what refuses in words."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query, Snapshot, parse, simulate
from duelrank.adapters.backfill import LogLearner
from duelrank.adapters.sklearn import ClickRanker
from duelrank.algorithms import PDGD, ScoredPDGD
from duelrank.core.errors import InvalidRecipe, InvalidValue, ShapeMismatch
from duelrank.core.randomness import stream
from duelrank.core.types import Features, Gradient, Stream, Weights
from duelrank.playground.app import check_recipes
from duelrank.playground.crowd import CrowdSettings
from duelrank.scoring import Scorer
from duelrank.simulation import FrozenWeights, Guarded
from duelrank.testing import check_algorithm, play, tiny_split


@dataclass(frozen=True, repr=False)
class Plain(Scorer):
    """One weight per feature: the linear ranker, as a scorer."""

    def n_weights(self, n_features: int) -> int:
        return n_features

    def start(self, n_features: int, stream: Stream) -> Weights:
        return np.zeros(n_features)

    def scores(self, weights: Weights, features: Features) -> np.ndarray:
        return features @ weights

    def gradient(self, weights: Weights, features: Features, slopes: np.ndarray) -> Gradient:
        return slopes @ features


def trained(recipe: str = "mlp-pdgd", lists: int = 60) -> Learner:
    return play(parse(recipe), lists)


def test_with_a_linear_scorer_it_is_pdgd() -> None:
    one, other = play(ScoredPDGD(Plain()), 300), play(PDGD(), 300)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9, atol=1e-12)
    for number in range(12):
        query = tiny_split().query(number)
        assert one.rank(query).ranking.tolist() == other.rank(query).ranking.tolist()
        np.testing.assert_allclose(one.score(query), other.score(query), rtol=1e-9, atol=1e-12)


def test_it_learns_what_no_linear_ranker_can() -> None:
    query, best = Query("shoes", [[0.1], [0.5], [0.9]]), {}
    for recipe in ("mlp-pdgd", "pdgd"):
        learner = Learner(recipe, 1)
        for _ in range(500):
            shown = learner.rank(query)
            learner.learn(shown, Feedback(shown.ranking == 1))
        best[recipe] = int(learner.best(query)[0])
    assert best["mlp-pdgd"] == 1
    assert best["pdgd"] != 1


def test_late_feedback_is_corrected_by_the_scores_of_the_list() -> None:
    learner = trained()
    shown = learner.rank(tiny_split().query(0))
    clicks, draws = Feedback(np.arange(5) == 2), stream(1, "learn")
    play(learner.algorithm, 20, learner=learner)
    as_now = learner.algorithm.observe_list(learner.state, shown.query, shown.ranking, draws)
    steps = [learner.algorithm.explain_step(learner.state, each, clicks, draws) for each in (shown, as_now)]
    assert not np.allclose(steps[0].direction, steps[1].direction, rtol=1e-3)


@pytest.mark.parametrize("recipe", ["query-scaled >> mlp-pdgd", "mlp-pdgd(layers=2, step=Momentum())"])
def test_combinations_keep_the_conventions(recipe: str) -> None:
    check_algorithm(recipe)


class TestSnapshots:
    def test_weights_of_another_number_are_refused(self) -> None:
        learner = trained()
        state = learner.snapshot().state
        for weights in (state.weights[:-1], np.zeros(3), np.zeros(0)):
            with pytest.raises((InvalidValue, ShapeMismatch)):
                Snapshot(
                    "ScoredPDGD()", learner.n_features, 0, 5, 0, type(state)(weights, state.step, state.updates)
                ).check()

    def test_the_number_of_features_is_that_of_the_weights(self) -> None:
        for recipe in ("mlp-pdgd", "mlp-pdgd(hidden=1)", "mlp-pdgd(hidden=3, layers=3)", "query-scaled >> mlp-pdgd"):
            for n_features in (1, 2, 5, 136):
                learner = Learner(recipe, n_features)
                assert learner.algorithm.n_features(learner.state) == n_features

    def test_another_number_of_features_is_named(self) -> None:
        with pytest.raises(ShapeMismatch, match="the ranker has 20 features, query 'narrow' has 3"):
            trained().rank(Query("narrow", np.ones((2, 3))))


class TestShown:
    def test_a_learner_says_that_it_is_not_linear(self) -> None:
        learner = Learner("mlp-pdgd(hidden=4)", feature_names=["bm25", "price"])
        assert repr(learner) == (
            "<Learner mlp-pdgd(hidden=4): 2 features, learned from 0 lists; 16 weights, not linear>"
        )
        assert "16 weights, not linear" in learner._repr_html_()
        assert "<Learner" not in learner._repr_html_()

    @pytest.mark.parametrize("recipe", ["mlp-pdgd", "query-scaled >> mlp-pdgd"])
    def test_there_are_no_curves(self, recipe: str) -> None:
        for show in (Learner.curves, Learner.plot):
            with pytest.raises(InvalidRecipe, match=r"mlp-pdgd is not linear.*no curves; score\(\) works"):
                show(trained(recipe))

    def test_scores_rank_as_best_does(self) -> None:
        learner, query = trained(), tiny_split().query(3)
        assert np.argsort(-learner.score(query), kind="stable").tolist() == learner.best(query).tolist()

    def test_a_click_ranker_has_scores_and_no_coefficients(self) -> None:
        shown = [[0.1, 0.9], [0.8, 0.2], [0.3, 0.3]]
        ranker = ClickRanker("mlp-pdgd")
        for _ in range(50):
            ranker.partial_fit(shown, [0, 1, 0])
        assert np.argmax(ranker.predict(shown)) == 1
        assert not hasattr(ranker, "coef_")


class TestSimulation:
    def test_a_guarded_run(self) -> None:
        record = simulate(
            "mlp-pdgd", "synthetic(n_queries=10)", "perfect", impressions=100, guard="Guarded(Feature(0))"
        )
        assert sum(record.guard.kinds.values()) == 100

    def test_the_cosine_to_weights_of_another_kind_is_not_computed(self) -> None:
        record = simulate("mlp-pdgd", "synthetic(n_queries=10)", "perfect", impressions=20)
        assert record.row(reference=np.ones(100))["cosine_curve"] == []

    def test_offline_is_the_metric_of_the_best_lists(self) -> None:
        record = simulate("query-scaled >> mlp-pdgd", "bumpy(n_queries=20)", "perfect", impressions=200)
        test = record.spec.dataset.fold(1).test
        best = [record.learner.best(test.query(number)) for number in range(len(test))]
        labels = [test.judgements(number) for number in range(len(test))]
        values = [record.spec.metric.of(own[order], own) for own, order in zip(labels, best, strict=True)]
        assert record.offline[-1] == pytest.approx(np.mean(values))


class TestRefusals:
    """Each says that the ranker is not linear, and what follows from that."""

    CASES: ClassVar = {
        "projected": lambda: parse("Projected(mlp-pdgd)"),
        "knots": lambda: parse("ramps >> mlp-pdgd"),
        "weights": lambda: Learner("mlp-pdgd", weights=np.ones(16)),
        "log": lambda: LogLearner(parse("mlp-pdgd")),
        "baseline": lambda: FrozenWeights("mlp-pdgd").weights(parse("synthetic(n_queries=10)"), 1),
        "harm": lambda: Guarded("Feature(0)", harm_after=10).check(parse("mlp-pdgd")),
        "playground": lambda: check_recipes("mlp-pdgd", CrowdSettings()),
        "users": lambda: check_recipes("mgd-dsp", CrowdSettings(algorithms=("mlp-pdgd", "mgd"))),
    }
    WORDS: ClassVar = {
        "projected": "cannot be projected",
        "knots": "knots",
        "weights": "only from a snapshot",
        "log": "such as pdgd",
        "baseline": "one weight for each feature",
        "harm": "does not reverse",
        "playground": "the page shows the weight of each feature",
        "users": "the page shows the weight of each feature",
    }

    @pytest.mark.parametrize("name", CASES)
    def test_in_words(self, name: str) -> None:
        with pytest.raises(InvalidRecipe, match=rf"mlp-pdgd is not linear, .*{self.WORDS[name]}"):
            self.CASES[name]()

    def test_lockstep(self) -> None:
        pytest.importorskip("jax", reason="needs the extra lockstep")
        from duelrank.lockstep.twin import obstacles

        assert list(obstacles(parse("mlp-pdgd"))) == ["ScoredPDGD has no lockstep twin"]
