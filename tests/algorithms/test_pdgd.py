"""PDGD: lists, gradients and their expectation against the enumeration of everything that could have happened."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank import Feedback, Impression, Learner, Query, parse
from duelrank.algorithms import Projected
from duelrank.algorithms.pdgd import PDGD
from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream
from duelrank.core.registry import aliases
from duelrank.core.types import NO_BOOSTS, State
from duelrank.kernels.pdgd import draw, pair_gradient
from duelrank.projection import DependentClick, DocumentSpace, LastClick, PositionBased, WholeList
from duelrank.testing import play

ALPHA = 1e-4


def chance(scores, ranking) -> float:
    """P(list): at each position the softmax over what was not shown above."""
    masses, total = np.exp(scores), 1.0
    for position, document in enumerate(ranking):
        total *= masses[document] / np.delete(masses, list(ranking[:position])).sum()
    return float(total)


def swapped_share(scores, ranking, i, j) -> float:
    """ρ of two positions, literally."""
    swapped = list(ranking)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    return chance(scores, swapped) / (chance(scores, ranking) + chance(scores, swapped))


def preferences(clicks) -> list[tuple[int, int]]:
    """Pairs (clicked, unclicked) of positions, down to one below the last click."""
    clicked = [position for position, click in enumerate(clicks) if click]
    looked_at = range(min(clicked[-1] + 2, len(clicks))) if clicked else range(0)
    return [(i, j) for i in clicked for j in looked_at if not clicks[j]]


def gradient_at(scores, ranking, clicks):
    """The gradient where every document is its own feature: one coefficient per document."""
    scores = np.asarray(scores, float)
    identity = np.eye(len(scores))
    return pair_gradient(scores, identity, NO_BOOSTS, scores, np.array(ranking, np.int64), np.array(clicks, np.bool_))


class TestLists:
    @pytest.mark.parametrize("length", [1, 2, 3, 4])
    def test_are_drawn_from_the_plackett_luce_model(self, length):
        scores, n = np.array([1.0, 0.0, -1.5, 0.3]), 20_000
        fresh = stream(length, "draw")
        seen = Counter(tuple(draw(scores, np.eye(4), NO_BOOSTS, length, fresh)[0].tolist()) for _ in range(n))
        lists = list(permutations(range(4), length))
        expected = np.array([chance(scores, ranking) for ranking in lists])
        assert expected.sum() == pytest.approx(1.0)
        assert expected.min() * n > 5  # enough of each for the test's approximation
        assert stats.chisquare([seen[ranking] for ranking in lists], n * expected).pvalue > ALPHA

    def test_scores_are_those_of_all_documents(self):
        features = np.arange(12.0).reshape(4, 3)
        impression = PDGD().rank(State(np.array([1.0, -2.0, 0.5])), Query("q", features), 2, stream(0, "rank"))
        np.testing.assert_allclose(impression.trace["scores"], features @ [1.0, -2.0, 0.5])

    def test_scores_whose_exponentials_overflow_or_vanish_are_no_problem(self):
        scores = np.array([-2000.0, 1500.0, 0.0, 3000.0])
        for number in range(20):
            ranking, _ = draw(scores, np.eye(4), NO_BOOSTS, 4, stream(number, "draw"))
            assert ranking.tolist() == [3, 1, 2, 0]
        for clicks in product([False, True], repeat=4):
            assert np.isfinite(gradient_at(scores, [0, 2, 1, 3], clicks)).all()

    def test_a_list_against_all_odds_still_has_exact_probabilities(self):
        """Two documents alike and far below the rest: swapping them changes nothing, ρ = 1/2, and the slope is 1/4."""
        gradient = gradient_at([900.0, -900.0, -900.0], [0, 1, 2], [False, True, False])
        np.testing.assert_allclose(gradient[1:], [1 / 8, -1 / 8], rtol=1e-12)


class TestGradient:
    def test_no_preference_where_all_or_nothing_is_clicked(self):
        assert not gradient_at([0.1, 0.2, 0.3], [0, 1, 2], [False] * 3).any()
        assert not gradient_at([0.1, 0.2, 0.3], [0, 1, 2], [True] * 3).any()

    def test_what_lies_further_down_than_one_below_the_last_click_was_not_seen(self):
        coefficients = gradient_at(np.zeros(6), [0, 1, 2, 3, 4, 5], [False, True, False, False, False, False])
        assert np.flatnonzero(coefficients).tolist() == [0, 1, 2]

    def test_all_equal(self):
        """With equal scores ρ = 1/2 and P(1 − P) = 1/4: an eighth per preference."""
        coefficients = gradient_at(np.zeros(4), [3, 2, 1, 0], [True, False, True, False])
        assert coefficients.tolist() == [-2 / 8, 2 / 8, -2 / 8, 2 / 8]

    @given(st.integers(0, 10_000), st.integers(2, 6), st.data())
    def test_is_the_derivative_of_the_weighted_preferences(self, seed, n, data):
        """Central differences of Σ ρ P(i ≻ j), ρ held at the scores of the draw, at weights that have moved since."""
        rng = np.random.default_rng(seed)
        features, then, now = rng.random((n, 3)), rng.normal(0, 2, 3), rng.normal(0, 2, 3)
        length = data.draw(st.integers(2, n))
        ranking = rng.permutation(n)[:length]
        clicks = np.array(data.draw(st.lists(st.booleans(), min_size=length, max_size=length)))

        def objective(weights):
            total, scores = 0.0, features @ weights
            for i, j in preferences(clicks):
                share = swapped_share(features @ then, ranking, i, j)
                total += share / (1.0 + np.exp(scores[ranking[j]] - scores[ranking[i]]))
            return total

        h = 1e-5
        slopes = [(objective(now + h * e) - objective(now - h * e)) / (2 * h) for e in np.eye(3)]
        found = pair_gradient(now, features, NO_BOOSTS, features @ then, ranking, clicks)
        # The third derivative of P is under 1/8, so h² · pairs/48 ≤ 2e-11 is lost to the difference, and eps/h · pairs to rounding.
        np.testing.assert_allclose(found, slopes, rtol=0, atol=1e-9)


def expected_gradient(scores, chance_of_click, stop, length=3, made_with=None):
    """E[gradient] over all lists and all clicks of a user who clicks by document, then stops by position.

    ``made_with`` are the scores that the gradient believes the list was drawn with; the true ones by default.
    """
    n = len(scores)
    made_with = scores if made_with is None else made_with
    total = np.zeros(n)
    for ranking in permutations(range(n), length):
        for depth in range(1, length + 1):  # positions that are examined
            stops = stop[depth - 1] if depth < length else 1.0
            reached = np.prod([1.0 - s for s in stop[: depth - 1]]) * stops
            for seen in product([False, True], repeat=depth):
                likely = np.prod(
                    [chance_of_click[d] if c else 1 - chance_of_click[d] for d, c in zip(ranking, seen, strict=False)]
                )
                clicks = np.array([*seen, *[False] * (length - depth)])
                found = pair_gradient(scores, np.eye(n), NO_BOOSTS, made_with, np.array(ranking), clicks)
                total += chance(scores, ranking) * reached * likely * found
    return total


class TestUnbiasedness:
    """The paper's theorem, exactly: for any current ranking, preferences point to the documents that users prefer."""

    SCORES = np.array([2.0, 0.5, -1.0, 0.0])
    STOP = (0.4, 0.3)

    def test_equally_relevant_documents_are_not_moved_however_unequal_their_scores(self):
        expected = expected_gradient(self.SCORES, [0.4] * 4, self.STOP)
        np.testing.assert_allclose(expected, 0.0, atol=1e-15)

    def test_without_the_scores_of_the_draw_they_would_be(self):
        """Equal scores give ρ = 1/2 throughout: then where a document is shown decides."""
        biased = expected_gradient(self.SCORES, [0.4] * 4, self.STOP, made_with=np.zeros(4))
        assert np.abs(biased).max() > 1e-3

    @pytest.mark.parametrize("better", range(4))
    def test_a_better_document_gains_on_each_of_the_others(self, better):
        """The others are alike, so a coefficient of theirs is what the one pair with the better document adds."""
        clicks = [0.4] * 4
        clicks[better] = 0.6
        expected = expected_gradient(self.SCORES, clicks, self.STOP)
        assert expected[better] > 1e-3
        assert (np.delete(expected, better) < -1e-4).all()
        assert expected.sum() == pytest.approx(0.0, abs=1e-15)

    @pytest.mark.parametrize("worse", range(4))
    def test_a_worse_document_loses_to_each_of_the_others(self, worse):
        clicks = [0.4] * 4
        clicks[worse] = 0.2
        expected = expected_gradient(self.SCORES, clicks, self.STOP)
        assert expected[worse] < -1e-3
        assert (np.delete(expected, worse) > 1e-4).all()


class TestAlgorithm:
    def test_moves_by_a_tenth_of_the_gradient(self):
        """One clicked above one unclicked, both alike in score: ρ/4 of the difference, ρ = 1/2."""
        learner = Learner("pdgd", n_features=2)
        impression = learner.rank(Query("q", np.eye(2)))
        learner.learn(impression, Feedback([True, False]))
        first = impression.ranking[0]
        np.testing.assert_allclose(learner.weights[[first, 1 - first]], [0.1 / 8, -0.1 / 8])

    def test_late_feedback_is_weighted_by_the_list_as_it_was_drawn(self):
        rng = np.random.default_rng(5)
        query, then, now = Query("q", rng.random((6, 4))), rng.normal(0, 3, 4), rng.normal(0, 3, 4)
        impression = PDGD().rank(State(then), query, 4, stream(1, "rank"))
        clicks = np.array([False, True, False, True])
        found, memory = PDGD().gradient(State(now), impression, Feedback(clicks), stream(1, "learn"))
        expected, shown = np.zeros(4), query.features[impression.ranking]
        for i, j in preferences(clicks):
            p = 1.0 / (1.0 + np.exp(now @ (shown[j] - shown[i])))
            share = swapped_share(query.features @ then, impression.ranking.tolist(), i, j)
            expected += share * p * (1 - p) * (shown[i] - shown[j])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert memory == {}

    def test_an_impression_of_another_algorithm_is_refused(self):
        query = Query("q", np.eye(3))
        impression = Impression(query, np.arange(3), {"directions": np.ones((1, 3))})
        with pytest.raises(InvalidValue, match="scores"):
            PDGD().learn(State(np.zeros(3)), impression, Feedback([True, False, False]), stream(0, "learn"))

    @pytest.mark.parametrize("examination", [LastClick(beyond=1), LastClick(beyond=3), WholeList()], ids=repr)
    @pytest.mark.parametrize("remembered", [0, 10])
    def test_its_gradient_already_lies_in_the_space_of_the_examined_documents(self, examination, remembered):
        projection = DocumentSpace(rescale="none", examination=examination, remembered=remembered)
        plain, projected = play(PDGD(), 300), play(Projected(PDGD(), projection), 300)
        assert plain.state.updates > 100
        np.testing.assert_allclose(projected.weights, plain.weights, rtol=1e-9, atol=1e-12)

    def test_a_space_that_lacks_an_examined_document_would_change_it(self):
        projection = DocumentSpace(rescale="none", examination=LastClick(beyond=0), remembered=0)
        plain, projected = play(PDGD(), 50), play(Projected(PDGD(), projection), 50)
        assert not np.allclose(projected.weights, plain.weights, rtol=1e-3)

    def test_hence_no_short_name_for_a_projected_one(self):
        assert "pdgd" in aliases()
        assert "pdgd-dsp" not in aliases()

    def test_random_start(self):
        assert np.linalg.norm(play(parse("pdgd(initial='random')"), 0).weights) == pytest.approx(1.0)


class TestListsOfOtherSystems:
    ATTRACTION, LENGTH = 0.4, 4

    def expected_gradient(self, recipe: PDGD) -> np.ndarray:
        """Enumerate all clicks of a user who sees position r with probability 1 / r and likes all documents equally."""
        learner = Learner(recipe, self.LENGTH)
        impression = learner.observe(Query("q", np.eye(self.LENGTH)), range(self.LENGTH))
        total = np.zeros(self.LENGTH)
        for clicks in product([False, True], repeat=self.LENGTH):
            odds = [self.ATTRACTION / rank for rank in range(1, self.LENGTH + 1)]
            chances = [chance if click else 1.0 - chance for chance, click in zip(odds, clicks, strict=True)]
            gradient, _ = recipe.gradient(learner.state, impression, Feedback(clicks), stream(1, "learn"))
            total += np.prod(chances) * gradient
        return total

    def test_teach_nothing_about_equal_documents_if_the_examination_is_right(self):
        right = PositionBased(attraction=self.ATTRACTION, bias=1.0)
        assert self.expected_gradient(PDGD(observed=right)) == pytest.approx(np.zeros(self.LENGTH), abs=1e-12)

    def test_teach_their_own_order_if_everything_counts_as_seen(self):
        found = self.expected_gradient(PDGD(observed=WholeList()))
        assert found.tolist() == sorted(found, reverse=True)
        assert found[0] > 0.1 * self.ATTRACTION

    def test_change_what_is_known_of_their_users_and_own_lists_do_not(self):
        query = Query("q", np.eye(3))
        learner = Learner(PDGD(observed=DependentClick(forgetting=1.0)), 3)
        learner.learn(learner.rank(query), Feedback([False, True, False]))
        assert not learner.state.memory
        learner.learn(learner.observe(query, [2, 0, 1]), Feedback([False, True, False]))
        assert "examination_users" in learner.state.of("observed").memory

    def test_are_read_by_the_examination_and_own_lists_are_not(self):
        plain, reading = (Learner(recipe, 3, seed=5) for recipe in (PDGD(), PDGD(observed=WholeList())))
        query = Query("q", [[0.1, 0.9, 0.3], [0.7, 0.2, 0.5], [0.4, 0.4, 0.9]])
        for learner in (plain, reading):
            learner.learn(learner.rank(query), Feedback([False, True, False]))
        assert np.array_equal(plain.weights, reading.weights)
        for learner in (plain, reading):
            learner.learn(learner.observe(query, [2, 0, 1]), Feedback([True, False, False]))
        assert not np.array_equal(plain.weights, reading.weights)

    def test_of_today_are_spelled_as_ever(self):
        assert "observed" not in repr(PDGD())
        assert parse(repr(PDGD(observed=LastClick()))) == PDGD(observed=LastClick())
