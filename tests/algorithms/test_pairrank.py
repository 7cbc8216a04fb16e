"""PairRank: its blocks, its pairs, and one pass in bounded memory against a fit of everything at once."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from scipy import optimize, stats

from duelrank import Feedback, Impression, Query, State, parse
from duelrank.algorithms.pairrank import PairRank
from duelrank.kernels.pair_rank import grown_curvature, independent_pairs, shrunk_inverse, shuffled_blocks
from duelrank.projection import WholeList
from duelrank.randomness import stream
from duelrank.testing import play, tiny_split

ALPHA = 1e-4


def lists(scores, variances, width, n=12_000, length=None, transitive=True) -> Counter[tuple[int, ...]]:
    """Many lists of documents that are their own features: |x_i − x_j|² in the norm of M⁻¹ is the sum of their variances."""
    scores, inverse, fresh = np.array(scores, float), np.diag(np.array(variances, float)), stream(0, "blocks")
    length = length or len(scores)
    features = np.eye(len(scores))
    found = (shuffled_blocks(scores, inverse, features, width, transitive, length, fresh) for _ in range(n))
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
            found = {tuple(shuffled_blocks(weights, inverse, features, 0.1, transitive, 6, fresh)) for _ in range(50)}
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


def loss(weights, differences) -> float:
    """Mean logistic loss of preferences."""
    return float(np.mean(np.logaddexp(0.0, -differences @ weights)))


def follow(differences, loss, n=3) -> State:
    """Learn from preferences in one pass, a few at a time."""
    algorithm, n_features = PairRank(loss=loss, examination=WholeList()), differences.shape[1]
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

    @pytest.mark.parametrize(("kind", "near"), [("mean", 0.01), ("sum", 0.1)])
    def test_one_pass_finds_nearly_what_a_fit_to_all_pairs_finds(self, kind, near):
        """Which documents are matched changes nothing here: the worse one of every pair is zero."""
        n, d = 3000, 6
        differences = drawn_pairs(n, d, seed=4)
        penalty = 0.1 if kind == "mean" else 0.05 / n
        best = optimize.minimize(lambda w: loss(w, differences) + penalty * w @ w, np.zeros(d), tol=1e-10).x
        found = follow(differences, kind).weights
        assert np.linalg.norm(found - best) < near * np.linalg.norm(best)

    def test_the_parabola_touches_the_loss_and_is_nowhere_under_it(self):
        """In one dimension, x = 1: loss(w) ≤ loss(m) − (w − m)/2 + A (w² − m²)/2, with equality at w = m."""
        ws = np.linspace(-30.0, 30.0, 601)
        for m in (0.0, 1e-7, 0.3, -2.0, 9.0):
            curvature = grown_curvature(np.array([m]), np.zeros((1, 1)), np.ones((1, 1)), np.ones(1))[0, 0]
            parabola = np.logaddexp(0.0, -m) - (ws - m) / 2 + curvature * (ws**2 - m**2) / 2
            assert np.all(parabola >= np.logaddexp(0.0, -ws) - 1e-9)
            slope = -0.5 + curvature * m
            np.testing.assert_allclose(slope, -1.0 / (1.0 + np.exp(m)), atol=1e-9)

    @pytest.mark.parametrize(("kind", "weight"), [("mean", 5 / 7), ("sum", 5 / 6)])
    def test_the_first_pair_by_hand(self, kind, weight):
        """x = (−1, 1): M = λI + x xᵀ, A = x xᵀ/4 with the eigenvalue 1/2, target x/2; ridge 2λ = 0.2 or λ = 0.1."""
        impression = Impression(Query("q", np.eye(2)), np.array([0, 1]))
        algorithm = PairRank(loss=kind)
        start = algorithm.start(2, stream(0, "start"))
        after = algorithm.learn(start, impression, Feedback([False, True]), stream(0, "learn"))
        np.testing.assert_allclose(after.weights, [-weight, weight])
        np.testing.assert_allclose(np.linalg.inv(after.memory["inverse"]), [[1.1, -1.0], [-1.0, 1.1]])
        np.testing.assert_array_equal(start.memory["inverse"], 10.0 * np.eye(2))

    def test_memory_does_not_grow(self):
        sizes = [sum(a.nbytes for a in play(PairRank(), n).state.memory.values()) for n in (0, 200)]
        assert sizes[0] == sizes[1]
