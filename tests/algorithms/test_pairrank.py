"""PairRank: its blocks, its pairs, and one pass in bounded memory against a fit of everything at once."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from scipy import optimize, stats

from duelrank import Feedback, Impression, Query, State, parse
from duelrank.algorithms import pairrank
from duelrank.algorithms.pairrank import PairRank
from duelrank.core.randomness import stream
from duelrank.core.types import NO_BOOSTS
from duelrank.kernels.pairrank import expanded, fitted, independent_pairs, shrunk_inverse, shuffled_blocks
from duelrank.projection import WholeList
from duelrank.testing import play, tiny_split

ALPHA = 1e-4
STATISTICS = ("curvature", "target", "differences", "gains", "bounds")


def lists(scores, variances, width, n=12_000, length=None, transitive=True) -> Counter[tuple[int, ...]]:
    """Many lists of documents that are their own features: |x_i − x_j|² in the norm of M⁻¹ is the sum of their variances."""
    scores, inverse, fresh = np.array(scores, float), np.diag(np.array(variances, float)), stream(0, "blocks")
    length = length or len(scores)
    features = np.eye(len(scores))
    found = (shuffled_blocks(scores, inverse, features, NO_BOOSTS, width, transitive, length, fresh) for _ in range(n))
    return Counter(tuple(ranking.tolist()) for ranking in found)


def assert_uniform(found: Counter[tuple[int, ...]], expected: list[tuple[int, ...]]) -> None:
    assert set(found) <= set(expected)
    assert stats.chisquare([found[ranking] for ranking in expected]).pvalue > ALPHA


class TestBlocks:
    def test_what_is_certain_is_ordered_and_what_is_not_is_shuffled(self):
        """The paper's first figure: all is certain but (0, 1), (2, 4) and (3, 4). So {0, 1} comes first, then {2, 3, 4}.

        Certain is σ(lead) − 0.1 √(variances) > 1/2. For (0, 1): 0.025 < 0.045; (2, 4): 0.146 < 0.2; (3, 4): 0.122 < 0.2; the
        nearest ones across are (1, 2): 0.414 > 0.032 and (1, 4): 0.45 > 0.203.
        """
        found = lists([3.1, 3.0, 0.6, 0.5, 0.0], [0.1, 0.1, 0.0, 0.0, 4.0], width=0.1)
        assert_uniform(found, [(*a, *b) for a, b in product(permutations((0, 1)), permutations((2, 3, 4)))])

    def test_a_document_between_two_that_are_uncertain_joins_their_block(self):
        """σ(3) − 1/2 = 0.453 > 0.4 on either side of the middle one, and σ(6) − 1/2 = 0.498 < 0.4 √2 around it."""
        found = lists([6.0, 3.0, 0.0], [16.0, 0.0, 16.0], width=0.1, transitive=False)
        assert_uniform(found, list(permutations(range(3))))

    def test_what_is_better_than_a_better_one_is_better(self):
        """The same documents: 0 ≻ 1 and 1 ≻ 2 are certain, so 0 ≻ 2 is too."""
        assert set(lists([6.0, 3.0, 0.0], [16.0, 0.0, 16.0], width=0.1, n=100)) == {(0, 1, 2)}

    def test_certainty_travels_over_any_number_of_documents(self):
        """Only neighbours are certain: σ(3) − 1/2 = 0.453 > 0.1 √18 = 0.424; two apart σ(6) − 1/2 = 0.498 < 0.1 √36."""
        scores, spread = np.arange(15.0, -1.0, -3.0), np.triu(np.full((6, 6), 4.2426))
        features = np.column_stack([scores, spread])  # the distance of documents k apart is 4.2426 √k
        weights, inverse = np.eye(7)[0], np.diag([0.0, *[1.0] * 6])
        for transitive in (True, False):
            fresh = stream(0, "chain")
            found = {
                tuple(shuffled_blocks(weights, inverse, features, NO_BOOSTS, 0.1, transitive, 6, fresh))
                for _ in range(50)
            }
            assert (found == {tuple(range(6))}) == transitive

    def test_a_short_list_is_the_top_of_the_long_one(self):
        """The list ends inside of the second block, and each document of it is as likely to be there."""
        found = lists([3.1, 3.0, 0.6, 0.5, 0.0], [0.1, 0.1, 0.0, 0.0, 4.0], width=0.1, length=3)
        assert_uniform(found, [(*a, b) for a in permutations((0, 1)) for b in (2, 3, 4)])

    def test_without_width_all_is_certain_but_ties(self):
        assert_uniform(lists([1.0, 2.0, 1.0, 3.0], [1.0] * 4, width=0.0), [(3, 1, 0, 2), (3, 1, 2, 0)])

    def test_nothing_is_certain_at_the_start(self):
        """All scores are zero, and every order is as likely."""
        learner, query = play(PairRank(), 0), Query("q", tiny_split().features[:4])
        found = Counter(tuple(learner.rank(query).ranking.tolist()) for _ in range(12_000))
        assert_uniform(found, list(permutations(range(4))))

    def test_there_is_less_and_less_to_shuffle(self):
        query = tiny_split().query(0)
        different = []
        for n in (0, 100, 1000):
            learner = play(PairRank(), n)
            different.append(len({tuple(learner.rank(query, 5).ranking.tolist()) for _ in range(200)}))
        assert different[0] > 150  # of 6,720
        assert different[0] > different[1] > different[2]


class TestPairs:
    def test_a_document_is_in_one_pair_at_most_and_every_matching_is_as_likely(self):
        clicks = np.array([False, True, False, True, False, False])
        seen = np.array([True, True, True, True, False, False])
        fresh = stream(1, "pairs")
        drawn = [independent_pairs(clicks, seen, fresh) for _ in range(2000)]
        found = Counter(tuple(sorted((int(i), int(j)) for i, j in pairs)) for pairs in drawn)
        assert_uniform(found, [((1, 0), (3, 2)), ((1, 2), (3, 0))])

    def test_the_fewer_of_clicked_and_unclicked_decide_how_many(self):
        fresh, seen = stream(2, "pairs"), np.ones(5, np.bool_)
        for clicks, n_pairs in (([1, 1, 1, 1, 0], 1), ([0, 1, 0, 1, 1], 2), ([0] * 5, 0), ([1] * 5, 0)):
            assert independent_pairs(np.array(clicks, np.bool_), seen, fresh).shape == (n_pairs, 2)

    @pytest.mark.parametrize(("beyond", "moves"), [(0, False), (1, True)])
    def test_a_click_at_the_top_says_something_only_about_what_was_seen_below(self, beyond, moves):
        learner = play(parse(f"pairrank(beyond={beyond})"), 0)
        before = learner.state.memory["inverse"]
        impression = learner.rank(tiny_split().query(0))
        learner.learn(impression, Feedback([True, False, False, False, False]))
        assert learner.weights.any() == moves
        assert np.array_equal(learner.state.memory["inverse"], before) != moves

    def test_by_default_the_document_below_the_last_click_was_seen(self):
        """The only pair is (first, second): the weights point from the second document to the first."""
        learner = play(PairRank(), 0)
        impression = learner.rank(tiny_split().query(0))
        learner.learn(impression, Feedback([True, False, False, False, False]))
        first, second = impression.query.features[impression.ranking[:2]]
        np.testing.assert_allclose(np.cross(learner.weights[:3], (first - second)[:3]), 0.0, atol=1e-9)
        assert learner.weights @ (first - second) > 0.0
        assert learner.state.memory["pairs"] == [1.0]

    def test_observed_examination_reaches_further_than_the_last_click(self):
        learner = play(parse("pairrank(examination=Observed())"), 0)
        learner.learn(learner.rank(tiny_split().query(0)), Feedback([True, False, False, False, False], examined=3))
        assert learner.state.updates == 1


def drawn_pairs(n: int, d: int, seed: int) -> np.ndarray:
    """Differences of two documents each, turned so that the first is the one that a logistic model preferred."""
    rng = np.random.default_rng(seed)
    truth, differences = rng.normal(0, 2, d), rng.random((n, d)) - rng.random((n, d))
    won = rng.random(n) < 1.0 / (1.0 + np.exp(-differences @ truth))
    return np.where(won[:, None], differences, -differences)


def exact_fit(differences, ridge) -> np.ndarray:
    """Minimise Σ log(1 + exp(−w·x)) + ridge/2 ‖w‖² by Newton's method; a step that would raise it is halved."""
    weights = np.zeros(differences.shape[1])

    def loss(w) -> float:
        return float(np.sum(np.logaddexp(0.0, -differences @ w)) + ridge / 2.0 * w @ w)

    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(differences @ weights))
        gradient = ridge * weights - chance @ differences
        curvature = (differences.T * (chance * (1.0 - chance))) @ differences + ridge * np.eye(len(weights))
        step = np.linalg.solve(curvature, gradient)
        while loss(weights - step) > loss(weights) and np.linalg.norm(step) > 1e-12:
            step /= 2.0
        weights = weights - step
    assert np.linalg.norm(differences.T @ (1.0 / (1.0 + np.exp(differences @ weights))) - ridge * weights) < 1e-9
    return weights


def distance(found, best) -> float:
    """Return ‖found − best‖ / ‖best‖."""
    return float(np.linalg.norm(found - best) / np.linalg.norm(best))


def follow(differences, n=3, **settings) -> State:
    """Learn from preferences in one pass, a few at a time; the worse document of every pair is zero, so any match is the same."""
    algorithm, n_features = PairRank(examination=WholeList(), **settings), differences.shape[1]
    state = algorithm.start(n_features, stream(0, "start"))
    for number, batch in enumerate(np.array_split(differences, len(differences) // n)):
        features = np.vstack([batch, np.zeros_like(batch)])
        impression = Impression(Query("q", features), np.arange(len(features)))
        clicks = Feedback(np.arange(len(features)) < len(batch))
        state = algorithm.learn(state, impression, clicks, stream(number, "learn"))
    return state


class TestFit:
    def test_the_inverse_stays_one_through_thousands_of_pairs(self):
        differences = drawn_pairs(6000, 12, seed=3)
        inverse = np.eye(12) / 0.5
        for batch in np.array_split(differences, 2000):
            inverse = shrunk_inverse(inverse, batch)
        whole = 0.5 * np.eye(12) + differences.T @ differences
        np.testing.assert_allclose(inverse @ whole, np.eye(12), atol=1e-10)
        np.testing.assert_array_equal(inverse, inverse.T)  # to the bit: r rᵀ is symmetric however it is rounded

    @pytest.mark.parametrize("n_lists", [400, 800])
    @pytest.mark.parametrize("regularisation", [0.1, 0.005895], ids=["defaults", "settings of rivals"])
    def test_weights_are_within_a_percent_of_the_exact_fit_to_all_pairs(self, regularisation, n_lists):
        """After 400 lists some pairs have left the memory, after 800 most have."""
        differences = drawn_pairs(3 * n_lists, 20, seed=4)
        best = exact_fit(differences, 2.0 * regularisation * len(differences))
        assert distance(follow(differences, regularisation=regularisation).weights, best) < 0.01

    def test_weights_are_near_the_exact_fit_where_the_penalty_fades(self):
        """A penalty of the sum allows long weights, from which summed-up pairs depart most."""
        differences = drawn_pairs(2400, 20, seed=4)
        assert distance(follow(differences, loss="sum").weights, exact_fit(differences, 0.1)) < 0.02

    def test_preferences_that_turn_around_are_followed(self):
        """Parabolas from leads of the old weights would be too flat for the fit to both."""
        differences = drawn_pairs(150, 4, seed=5)
        both = np.concatenate([differences, -differences])
        assert distance(follow(both, loss="sum").weights + 1.0, exact_fit(both, 0.1) + 1.0) < 0.02

    def test_no_sweep_raises_the_loss(self):
        """In one dimension, from bounds that were right for other weights."""
        x = np.array([[1.0], [1.0], [1.0], [-1.0], [-1.0]])
        ones, nothing = np.ones(5), np.zeros((1, 1))
        for start in (0.0, 1e-7, -9.0, 30.0):
            for bound in (0.0, 0.01, 0.25):
                bounds = np.full(5, bound)
                known = (nothing + 5 * bound, nothing[0], x, ones, bounds)
                found, curvature, tight = fitted(np.array([start]), *known, 0.1, 1e-12)
                assert distance(found, exact_fit(x, 0.1)) < 0.01
                np.testing.assert_allclose(curvature[0, 0], tight.sum())

    def test_an_expanded_pair_has_the_slope_and_the_curvature_of_its_loss(self):
        """In one dimension, x = 1: loss′(m) = −1/(1 + exp(m)) = A m − target, and loss″(m) = A."""
        for m in (0.0, 1e-7, 0.3, -2.0, 9.0):
            statistics = (np.full((1, 1), 0.2), np.zeros(1), np.ones((1, 1)), np.ones(1), np.full(1, 0.2))
            curvature, target = expanded(np.array([m]), *statistics)
            chance = 1.0 / (1.0 + np.exp(-m))
            np.testing.assert_allclose(curvature[0, 0], chance * (1.0 - chance), atol=1e-12)
            np.testing.assert_allclose(curvature[0, 0] * m - target[0], chance - 1.0, atol=1e-12)

    @pytest.mark.parametrize(("kind", "ridge"), [("mean", 0.2), ("sum", 0.1)])
    def test_the_first_pair_by_hand(self, kind, ridge):
        """x = (−1, 1), so w = (−a, a) with 1 / (1 + exp(2a)) = ridge · a; the ridge is 2λ or λ. M = λI + x xᵀ."""
        impression = Impression(Query("q", np.eye(2)), np.array([0, 1]))
        algorithm = PairRank(loss=kind)
        start = algorithm.start(2, stream(0, "start"))
        after = algorithm.learn(start, impression, Feedback([False, True]), stream(0, "learn"))
        weight = optimize.brentq(lambda a: 1.0 / (1.0 + np.exp(2.0 * a)) - ridge * a, 0.0, 10.0)
        np.testing.assert_allclose(after.weights, [-weight, weight], rtol=0.005)
        np.testing.assert_allclose(np.linalg.inv(after.memory["inverse"]), [[1.1, -1.0], [-1.0, 1.1]])
        np.testing.assert_array_equal(start.memory["inverse"], 10.0 * np.eye(2))

    def test_a_heavy_click_counts_as_that_many_pairs(self):
        """In the loss; the mean is over the weights of the pairs."""
        impression = Impression(Query("q", np.array([[0.4, 0.0], [0.0, 1.0]])), np.array([0, 1]))
        once, thrice = (PairRank().start(2, stream(0, "start")) for _ in range(2))
        for number in range(3):
            once = PairRank().learn(once, impression, Feedback([False, True]), stream(number, "learn"))
        thrice = PairRank().learn(thrice, impression, Feedback([False, True], weights=[0.0, 3.0]), stream(0, "learn"))
        assert distance(once.weights, thrice.weights) < 0.01

    def test_a_state_from_before_pairs_were_remembered_goes_on(self):
        """It has the sums of all its pairs."""
        differences = drawn_pairs(60, 4, seed=6)
        state = follow(differences)
        curvature, target = expanded(state.weights, *(state.memory[name] for name in STATISTICS))
        memory = {"inverse": state.memory["inverse"], "pairs": state.memory["pairs"]}
        old = State(state.weights, memory={**memory, "curvature": curvature, "target": target})
        impression = Impression(Query("q", np.eye(4)), np.arange(4))
        after = PairRank().learn(old, impression, Feedback([False, True, False, False]), stream(0, "learn"))
        assert distance(after.weights, state.weights) < 0.2
        assert np.count_nonzero(after.memory["gains"]) == 1

    def test_memory_does_not_grow(self):
        sizes = [sum(a.nbytes for a in play(PairRank(), n).state.memory.values()) for n in (0, 200)]
        assert sizes[0] == sizes[1]

    def test_a_list_may_have_more_pairs_than_are_remembered(self, monkeypatch):
        monkeypatch.setattr(pairrank, "REMEMBERED", 5)
        differences = drawn_pairs(48, 4, seed=7)
        state = follow(differences, n=12)
        assert state.memory["differences"].shape == (5, 4)
        assert distance(state.weights, exact_fit(differences, 0.2 * 48)) < 0.05
