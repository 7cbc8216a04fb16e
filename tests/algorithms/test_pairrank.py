"""PairRank: its blocks, its pairs, and one pass of Newton steps against a fit of everything at once."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from scipy import optimize, stats

from duelrank import Feedback, Impression, Query, parse
from duelrank.algorithms.pairrank import PairRank
from duelrank.kernels.pair_rank import independent_pairs, newton_step, shuffled_blocks
from duelrank.randomness import stream
from duelrank.testing import play, tiny_split

ALPHA = 1e-4


def lists(scores, variances, width, n=12_000, length=None) -> Counter[tuple[int, ...]]:
    """Many lists of documents that are their own features: |x_i − x_j|² in the norm of M⁻¹ is the sum of their variances."""
    scores, inverse, fresh = np.array(scores, float), np.diag(np.array(variances, float)), stream(0, "blocks")
    length = length or len(scores)
    found = (shuffled_blocks(scores, inverse, np.eye(len(scores)), width, length, fresh) for _ in range(n))
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
        found = lists([6.0, 3.0, 0.0], [16.0, 0.0, 16.0], width=0.1)
        assert_uniform(found, list(permutations(range(3))))

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
        impression = learner.rank(tiny_split().query(0))
        learner.learn(impression, Feedback([True, False, False, False, False]))
        assert learner.weights.any() == moves
        assert np.array_equal(learner.state.memory["inverse"], np.eye(20)) != moves

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


def follow(differences, regularisation=1.0) -> tuple[np.ndarray, np.ndarray]:
    """One pass over preferences, three at a time: weights and the inverse at its end."""
    d = differences.shape[1]
    weights, inverse = np.zeros(d), np.eye(d) / regularisation
    for batch in np.array_split(differences, len(differences) // 3):
        features = np.vstack([batch, np.zeros(d)])
        pairs = np.array([(i, len(batch)) for i in range(len(batch))], np.int64)
        step, inverse = newton_step(weights, inverse, features, np.arange(len(features)), pairs)
        weights = weights + 4.0 * step
    return weights, inverse


class TestNewton:
    def test_the_inverse_stays_one_through_thousands_of_pairs(self):
        differences = drawn_pairs(6000, 12, seed=3)
        _, inverse = follow(differences, regularisation=0.5)
        whole = 0.5 * np.eye(12) + differences.T @ differences
        np.testing.assert_allclose(inverse @ whole, np.eye(12), atol=1e-10)
        np.testing.assert_array_equal(inverse, inverse.T)  # to the bit: r rᵀ is symmetric however it is rounded

    def test_one_pass_is_nearly_as_good_as_a_fit_of_everything(self):
        """Newton's steps in one pass have a regret of order d log n: that much more than the best, spread over n pairs."""
        n, d = 3000, 6
        differences = drawn_pairs(n, d, seed=4)
        best = optimize.minimize(loss, np.zeros(d), args=(differences,)).fun
        online, _ = follow(differences)
        assert best <= loss(online, differences) < best + d * np.log(n) / n
        assert best + d * np.log(n) / n < loss(np.zeros(d), differences)  # which says something

    @pytest.mark.parametrize("seed", range(10))
    def test_a_step_never_overshoots(self, seed):
        """With curvature at most M/4 the new pairs' log-likelihood gains at least 2 gᵀM⁻¹g, half of what a straight line would."""
        rng = np.random.default_rng(seed)
        weights, inverse = rng.normal(0, 3, 4), np.eye(4) / 0.01
        features = rng.random((6, 4))
        pairs = np.array([(0, 1), (2, 3), (4, 5)])
        differences = features[pairs[:, 0]] - features[pairs[:, 1]]
        step, _ = newton_step(weights, inverse, features, np.arange(6), pairs)
        gradient = differences.T @ (1.0 / (1.0 + np.exp(differences @ weights)))
        gain = 3 * (loss(weights, differences) - loss(weights + 4.0 * step, differences))
        assert gain >= 2.0 * gradient @ step > 0.0

    def test_the_algorithm_takes_the_whole_step(self):
        query = Query("q", np.eye(2))
        impression = Impression(query, np.array([0, 1]))
        start = PairRank().start(2, stream(0, "start"))
        after = PairRank().learn(start, impression, Feedback([False, True]), stream(0, "learn"))
        # x = (−1, 1): M = I + x xᵀ, M⁻¹x = x/3, and 1 − P = 1/2.
        np.testing.assert_allclose(after.weights, [-2 / 3, 2 / 3])
        np.testing.assert_allclose(after.memory["inverse"], [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])
        np.testing.assert_array_equal(start.memory["inverse"], np.eye(2))
