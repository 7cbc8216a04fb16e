"""Click models: the posterior is exact, the parameters are found in streams of clicks, and memory is bounded."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.core.errors import InvalidRecipe
from duelrank.core.grammar import parse
from duelrank.core.registry import classes
from duelrank.core.types import Feedback, Impression, Query
from duelrank.projection import DependentClick, DynamicBayesian, ModelledExamination, PositionBased

CHANCE = st.floats(0.02, 0.98)
CLICKS = st.lists(st.booleans(), min_size=1, max_size=6)
MODELS = [PositionBased, DependentClick, DynamicBayesian]


def shown(features: np.ndarray) -> Impression:
    return Impression(Query("q", features), np.arange(len(features)))


def weights(model: ModelledExamination, clicks, memory=None) -> np.ndarray:
    return model.weights(memory or {}, shown(np.zeros((len(clicks), 2))), Feedback(clicks))


def enumerated(clicks, attraction, joint_of_seen) -> np.ndarray:
    """P(seen | clicks) by the definition: sum over every set of seen positions and every set of attractive documents."""
    total, of_seen = 0.0, np.zeros(len(clicks))
    for seen in product((False, True), repeat=len(clicks)):
        for attracted in product((False, True), repeat=len(clicks)):
            if all((s and a) == c for s, a, c in zip(seen, attracted, clicks, strict=True)):
                joint = joint_of_seen(seen) * np.prod([attraction if a else 1 - attraction for a in attracted])
                total, of_seen = total + joint, of_seen + joint * np.array(seen)
    return of_seen / total


def chain(clicks, after_click, after_skip):
    """P(which positions are seen) for users who go from the top down, as a function of the flags."""

    def joint(seen) -> float:
        chance = float(seen[0])
        for before, now, clicked in zip(seen, seen[1:], clicks, strict=False):
            go = (after_click if clicked else after_skip) if before else 0.0
            chance *= go if now else 1 - go
        return chance

    return joint


class TestPosterior:
    @given(CLICKS, CHANCE, st.floats(0.0, 3.0))
    def test_position_based(self, clicks, attraction, bias):
        def joint(seen) -> float:
            chances = [(i + 1) ** -bias for i in range(len(seen))]
            return float(np.prod([p if s else 1 - p for s, p in zip(seen, chances, strict=True)]))

        found = weights(PositionBased(attraction=attraction, bias=bias), clicks)
        np.testing.assert_allclose(found, enumerated(clicks, attraction, joint), rtol=1e-9)

    @given(CLICKS, CHANCE, CHANCE, CHANCE)
    def test_dependent_click(self, clicks, attraction, after_click, after_skip):
        found = weights(DependentClick(attraction, None, after_click, after_skip), clicks)
        expected = enumerated(clicks, attraction, chain(clicks, after_click, after_skip))
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    @given(CLICKS, CHANCE, CHANCE, CHANCE)
    def test_dynamic_bayesian(self, clicks, attraction, perseverance, satisfaction):
        found = weights(DynamicBayesian(attraction, None, perseverance, satisfaction), clicks)
        expected = enumerated(clicks, attraction, chain(clicks, perseverance * (1 - satisfaction), perseverance))
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    @pytest.mark.parametrize("model", MODELS)
    @given(CLICKS, CHANCE, st.one_of(st.none(), CHANCE))
    def test_weights_are_probabilities_and_what_was_clicked_was_seen(self, model, clicks, attraction, forgetting):
        found = weights(model(attraction=attraction, forgetting=forgetting), clicks)
        assert ((found >= 0) & (found <= 1)).all()
        assert (found[np.array(clicks)] == 1).all()
        assert found[0] == 1

    @pytest.mark.parametrize("model", [DependentClick(after_skip=0.8), DynamicBayesian()])
    @given(CLICKS)
    def test_from_the_top_down_all_is_seen_to_the_last_click_and_less_and_less_below(self, model, clicks):
        found = weights(model, clicks)
        last = max((i for i, clicked in enumerate(clicks, 1) if clicked), default=1)
        assert (found[:last] == 1).all()
        assert (np.diff(found) <= 0).all()
        assert (found[last:] < 1).all()

    def test_users_who_do_what_they_never_do_are_believed(self):
        """Clicks after a certain stop: what was clicked was seen, and the model goes on from there."""
        assert weights(DependentClick(after_click=0.0), [True, False, True, False]).tolist() == [1, 1, 1, 0]
        assert weights(DynamicBayesian(satisfaction=1.0), [True, True, False]).tolist() == [1, 1, 0]

    def test_no_list_is_no_weight(self):
        for model in MODELS:
            empty = Impression(Query("q", np.zeros((1, 2))), np.arange(0))
            part, feedback = model(forgetting=0.9), Feedback(np.zeros(0, bool))
            assert part.weights({}, empty, feedback).size == 0
            assert part.observe({}, empty, feedback) == {}

    def test_an_attractive_document_that_was_not_clicked_was_probably_not_seen(self):
        """The learned attraction of each document enters: of two lists, that with the more attractive end was left earlier."""
        model = DynamicBayesian(forgetting=0.999)
        features = np.array([[0.0], [0.0], [1.0]])
        memory = {"examination_documents": np.array([[4.0, -1.0], [0.0, 1.0]])}
        dull, bright = shown(features[[0, 0, 0]]), shown(features)
        clicks = Feedback([True, False, False])
        assert model.weights(memory, bright, clicks)[2] < model.weights(memory, dull, clicks)[2]


class TestLearning:
    """Streams of clicks of the very model, lists of ten random documents whose attraction is logistic in four features.

    With a constant forgetting f, online EM of a probability θ moves by (1 − f)(successes − θ · trials) per trial. In the long run
    its variance is (1 − f)/2 · θ(1 − θ), for any share of hidden trials (that makes it slower: noise and pull shrink
    alike). Four such standard errors are allowed. To forget the start takes 1/(1 − f) trials over the share that is not hidden;
    streams are several times as long.
    """

    N, D = 10, 4
    SLOPES = np.array([2.0, -2.0, 1.0, 0.0])

    def stream(self, n_lists, click, seed):
        rng = np.random.default_rng(seed)
        for _ in range(n_lists):
            features = rng.random((self.N, self.D))
            attraction = 1 / (1 + np.exp(0.5 - (features - 0.5) @ self.SLOPES))
            yield shown(features), Feedback(click(rng.random(self.N) < attraction, rng)), attraction

    def learned(self, model, n_lists, click, memory=None, seed=0):
        memory = memory or {}
        for impression, feedback, _ in self.stream(n_lists, click, seed):
            memory = model.observe(memory, impression, feedback)
        return memory

    @staticmethod
    def chances(memory) -> np.ndarray:
        successes, trials = memory["examination_users"]
        return successes / trials

    @staticmethod
    def descend(after_click, after_skip):
        def click(attracted, rng):
            clicks = np.zeros(attracted.size, bool)
            for i, flag in enumerate(attracted):
                clicks[i] = flag
                if rng.random() >= (after_click[i] if flag else after_skip):
                    break
            return clicks

        return click

    @staticmethod
    def bound(chance, forgetting):
        return 4 * np.sqrt((1 - forgetting) / 2 * chance * (1 - chance))

    def test_dynamic_bayesian(self):
        perseverance, satisfaction, forgetting = 0.8, 0.7, 0.998
        model = DynamicBayesian(forgetting=forgetting, perseverance=0.5, satisfaction=0.3)
        click = self.descend([perseverance * (1 - satisfaction)] * self.N, perseverance)
        truth = np.array([perseverance, satisfaction])
        found = self.chances(self.learned(model, 4000, click))
        assert (np.abs(found - truth) < self.bound(truth, forgetting)).all()

    def test_dependent_click(self):
        """Of the places where a click is common, the upper six; further down the start is not forgotten in so few lists."""
        after_click, after_skip, forgetting = np.linspace(0.8, 0.4, self.N), 0.9, 0.995
        model = DependentClick(forgetting=forgetting, after_click=0.5, after_skip=0.6)
        found = self.chances(self.learned(model, 4000, self.descend(after_click, after_skip)))
        assert (np.abs(found[:6] - after_click[:6]) < self.bound(after_click[:6], forgetting)).all()
        assert abs(found[-1] - after_skip) < self.bound(after_skip, forgetting)

    def test_users_who_never_stop_without_a_click_stay_so(self):
        model = DependentClick(forgetting=0.99)
        assert self.chances(self.learned(model, 300, self.descend([0.3] * self.N, 0.8)))[-1] == pytest.approx(1.0)

    def test_position_based(self):
        """Twenty positions have parameters; those below the list keep what they began with."""
        bias, forgetting = 0.6, 0.995
        truth = np.arange(1, self.N + 1) ** -bias
        model = PositionBased(forgetting=forgetting, bias=1.5)
        found = self.chances(self.learned(model, 6000, lambda attracted, rng: attracted & (rng.random(self.N) < truth)))
        assert found[0] == 1.0
        assert (np.abs(found[1 : self.N] - truth[1:]) < self.bound(truth[1:], forgetting)).all()
        np.testing.assert_allclose(found[self.N :], np.arange(self.N + 1, 21) ** -1.5)

    def test_position_based_that_remembers_all_lists_finds_the_truth_too(self):
        """With steps of 1/t the estimate of the second position was still 0.12 too low after 10,000 lists.

        The steps are t^−0.6: the variance as above, with 1 − f = 6000^−0.6.
        """
        truth = np.arange(1, self.N + 1) ** -0.6
        model = PositionBased(forgetting=1.0, bias=1.5)
        found = self.chances(self.learned(model, 6000, lambda attracted, rng: attracted & (rng.random(self.N) < truth)))
        assert (np.abs(found[1 : self.N] - truth[1:]) < self.bound(truth[1:], 1 - 6000**-0.6)).all()

    def test_attraction_is_learned_from_the_features(self):
        """A gradient step η on a likelihood leaves a covariance of η/2 in the long run, where noise and curvature are alike.

        With t = 1,000 lists known, η is 2/(√t · spread) = 0.019 for the slopes (spread: ten documents, four features of variance
        1/12) and 2/(10√t) = 0.0063 for the intercept: a variance of 0.0095 · 4/12 + 0.0032 of a score, 0.08 of standard
        deviation, and at most a quarter of that in the probability. The mean error is below; 0.05 is two and a half times as much.
        """
        model = DynamicBayesian(forgetting=0.999)
        click = self.descend([0.4] * self.N, 0.9)
        slopes, mean = self.learned(model, 4000, click)["examination_documents"]
        errors = []
        for impression, _, attraction in self.stream(50, click, seed=1):
            scores = slopes[-1] + (impression.query.features - mean[:-1]) @ slopes[:-1]
            errors.append(np.abs(1 / (1 + np.exp(-scores)) - attraction))
        assert np.mean(errors) < 0.05
        np.testing.assert_allclose(mean[:-1], 0.5, atol=4 * np.sqrt(1 / 12 / self.N * 0.001 / 2))

    def test_a_change_of_users_is_followed_by_those_who_forget(self):
        """1,500 lists have some 600 clicks at the top: six times the hundred that a forgetting of 0.99 remembers."""
        patient, hasty = self.descend([0.8] * self.N, 1.0), self.descend([0.1] * self.N, 1.0)
        found = {}
        for forgetting in (0.99, 1.0):
            model = DependentClick(forgetting=forgetting)
            memory = self.learned(model, 1500, patient)
            found[forgetting] = self.chances(self.learned(model, 1500, hasty, memory, seed=1))[0]
        assert abs(found[0.99] - 0.1) < self.bound(0.1, 0.99)
        assert abs(found[1.0] - 0.45) < 0.15  # half of the users it has met were patient

    @pytest.mark.parametrize("forgetting", [0.0, 0.5, 1.0])
    @pytest.mark.parametrize("model", MODELS)
    def test_any_forgetting_leaves_numbers(self, model, forgetting):
        memory = self.learned(model(forgetting=forgetting), 1500, self.descend([0.5] * self.N, 0.9))
        chances = self.chances(memory)
        assert ((chances >= 0) & (chances <= 1 + 1e-12)).all()
        assert np.isfinite(memory["examination_documents"]).all()

    @pytest.mark.parametrize("scale", [1e-100, 1e-3, 1e3, 1e100])
    def test_the_unit_of_the_features_does_not_matter(self, scale):
        model, found = DynamicBayesian(forgetting=0.99), {}
        for unit in (1.0, scale):
            memory = {}
            for impression, feedback, _ in self.stream(60, self.descend([0.5] * self.N, 0.9), 0):
                memory = model.observe(memory, shown(impression.query.features * unit), feedback)
            found[unit] = self.chances(memory)
        np.testing.assert_allclose(found[scale], found[1.0], rtol=1e-6)


class TestMemory:
    @pytest.mark.parametrize("model", MODELS)
    def test_it_does_not_grow_and_belongs_to_the_state_alone(self, model):
        rng, part = np.random.default_rng(0), model(forgetting=0.9)
        memory = {}
        for n in (3, 40, 7):
            feedback = Feedback(rng.random(n) < 0.3)
            memory = part.observe(memory, shown(rng.random((n, 5))), feedback)
            assert set(memory) == {"examination_documents", "examination_users"}
            assert sum(array.size for array in memory.values()) <= 2 * (5 + 1) + 2 * 21

    @pytest.mark.parametrize("model", MODELS)
    def test_nothing_is_written_to(self, model):
        rng, part = np.random.default_rng(0), model(forgetting=0.9)
        impression, feedback = shown(rng.random((6, 5))), Feedback(rng.random(6) < 0.3)
        memory = part.observe({}, impression, feedback)
        copies = {name: array.copy() for name, array in memory.items()}
        part.weights(memory, impression, feedback)
        part.observe(memory, impression, feedback)
        assert all(np.array_equal(memory[name], copies[name]) for name in copies)

    @pytest.mark.parametrize("model", MODELS)
    def test_fixed_parameters_remember_nothing(self, model):
        memory = {}
        assert model().observe(memory, shown(np.ones((3, 2))), Feedback([True, False, False])) is memory

    def test_lists_without_a_click_teach_too(self):
        model = DynamicBayesian(forgetting=0.9)
        memory = model.observe({}, shown(np.ones((3, 2))), Feedback([False] * 3))
        assert memory["examination_users"][1, 0] > 10 * 0.9


@pytest.mark.parametrize("bad", [{"attraction": 0.0}, {"attraction": 1.0}, {"forgetting": 1.5}])
@pytest.mark.parametrize("model", MODELS)
def test_bad_parameters_are_refused(model, bad):
    with pytest.raises(InvalidRecipe, match="from"):
        model(**bad)


def test_they_have_names():
    assert {"PositionBased", "DependentClick", "DynamicBayesian"} <= set(classes())
    assert parse("DynamicBayesian(satisfaction=0.2)") == DynamicBayesian(satisfaction=0.2)
