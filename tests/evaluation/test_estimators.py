"""Off-policy evaluation: how users look at lists, estimates, and what is refused."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from duelrank import Feedback, Learner, Query, evaluate
from duelrank.core.errors import DuelrankError
from duelrank.core.grammar import parse
from duelrank.core.registry import names
from duelrank.evaluation import (
    Browsing,
    DirectMethod,
    DoublyRobust,
    Estimator,
    Examined,
    ItemPosition,
    Lists,
    LoggedList,
    RewardInteraction,
    evaluate_lists,
)
from duelrank.evaluation.estimators import Rewards, estimated
from duelrank.evaluation.evaluation import FEWEST_VARIED

ORDERS = np.array(list(permutations(range(4))))


def random_log(n, goes_on, seed=1, attraction=None, candidate=(0, 1, 2, 3)):
    """Return lists in random order, of users who go on after position k with probability goes_on[k − 1], and the attractions."""
    rng = np.random.default_rng(seed)
    attracts = rng.random((n, 4)) if attraction is None else np.tile(attraction, (n, 1))
    features = rng.random((n, 4, 2))
    if attraction is not None:
        features[:, :, 0] = attraction
    logged = []
    for each, known in zip(attracts, features, strict=True):
        shown = rng.permutation(4)
        seen = np.cumprod([1.0, *(rng.random(3) < goes_on)])
        gains = seen * (rng.random(4) < each[shown])
        sampled = rng.permuted(np.tile(np.arange(4), (31, 1)), axis=1)
        logged.append(LoggedList(known, shown, gains, sampled, np.array([candidate])))
    return Lists.of(logged), attracts


class TestBrowsing:
    @pytest.mark.parametrize("goes_on", [(1.0, 1.0, 1.0), (0.5, 2 / 3, 0.75), (0.6, 0.6, 0.6)])
    def test_learns_how_far_users_look_though_features_say_nothing_of_attraction(self, goes_on):
        lists, _ = random_log(6_000, goes_on)
        browsing = Browsing(lists, lists.gains > 0.0)
        expected = np.cumprod([1.0, *goes_on])
        assert_allclose(browsing.looks.shown.mean(axis=0), expected, atol=0.05)

    def test_learns_that_good_documents_satisfy(self):
        rng, logged = np.random.default_rng(3), []
        for _ in range(6_000):
            good = rng.permutation([True, True, False, False])  # what features say is in the range of a list
            shown, features = rng.permutation(4), np.stack([good, rng.random(4)], axis=1)
            seen = np.cumprod([1.0, *(rng.random(3) < np.where(good[shown[:3]], 0.2, 0.9))])
            gains = seen * (rng.random(4) < np.where(good[shown], 0.8, 0.2))
            sampled = rng.permuted(np.tile(np.arange(4), (31, 1)), axis=1)
            logged.append(LoggedList(features, shown, gains, sampled, np.array([[0, 1, 2, 3]])))
        lists = Lists.of(logged)
        goes_on = Browsing(lists, lists.gains > 0.0).goes_on(lists.shown)[:, 0]
        good = lists.covariates[lists.rows[lists.shown[:, 0]], 1] == 1.0
        assert goes_on[good].mean() == pytest.approx(0.2, abs=0.06)
        bad = lists.covariates[lists.rows[lists.shown[:, 0]], 1] == 0.0
        assert goes_on[bad].mean() == pytest.approx(0.9, abs=0.06)

    def test_what_features_do_not_say_is_learned_from_other_lists_of_the_same_documents(self):
        rng, attraction, logged = np.random.default_rng(4), np.array([0.9, 0.1, 0.1, 0.9]), []
        features = np.array([[0.0], [1.0], [2.0], [3.0]])  # no line through these numbers is the attraction
        for _ in range(2_000):
            shown = rng.permutation(4)
            gains = (rng.random(4) < attraction[shown]).astype(float)
            sampled = rng.permuted(np.tile(np.arange(4), (31, 1)), axis=1)
            logged.append(LoggedList(features, shown, gains, sampled, np.array([[0, 1, 2, 3]])))
        lists = Lists.of(logged)
        found = Browsing(lists, lists.gains > 0.0).attraction
        means = [found[:-1][lists.rows[:-1] == row].mean() for row in range(4)]
        assert_allclose(means, attraction, atol=0.05)

    def test_a_known_bias_is_taken_as_it_is(self):
        lists, _ = random_log(10, (1.0, 1.0, 1.0))
        browsing = Browsing(lists, lists.gains > 0.0, bias=1.0)
        assert_allclose(browsing.looks.shown, np.tile([1.0, 1 / 2, 1 / 3, 1 / 4], (10, 1)))
        assert browsing.nearby == []


@pytest.fixture(scope="module")
def small():
    """Return 40 lists, and a candidate that shows three of their four documents."""
    lists, _ = random_log(40, (0.5, 0.5, 0.5), candidate=(2, 0, 3))
    return lists


class TestWeights:
    """Estimators against what their definitions say, in loops over lists and positions."""

    def value(self, lists, estimator):
        rewards = Rewards(lists, "clicks")
        browsing = Browsing(lists, rewards.happened, bias=1.0) if estimator.browses else None
        return estimated(estimator, rewards, browsing, lists.candidates[0]).value

    @pytest.mark.parametrize("normalised", [False, True])
    def test_item_position(self, small, normalised):
        weights, gains = np.zeros((40, 4)), np.zeros((40, 4))
        for i, k in np.ndindex(40, 4):
            if small.candidates[0, i, k] == small.shown[i, k] >= 0:
                weights[i, k] = 1.0 / np.mean([draw[k] == small.shown[i, k] for draw in small.sampled[i]])
                gains[i, k] = small.gains[i, k]
        expected = (weights * gains).mean(axis=0)
        if normalised:
            expected = np.divide(expected, weights.mean(axis=0), out=np.zeros(4), where=weights.any(axis=0))
        assert self.value(small, ItemPosition(normalised)) == pytest.approx(expected.sum())

    def test_reward_interaction(self, small):
        total = 0.0
        for i, k in np.ndindex(40, 4):
            top = small.shown[i, : k + 1]
            if (small.candidates[0, i, : k + 1] == top).all():
                total += small.gains[i, k] / np.mean([(draw[: k + 1] == top).all() for draw in small.sampled[i]])
        assert self.value(small, RewardInteraction()) == pytest.approx(total / 40)

    def test_examined(self, small):
        def look(ranked, entry):
            places = np.flatnonzero(ranked == entry)
            return 1.0 / (1 + places[0]) if places.size else 0.0

        total = 0.0
        for i, k in np.ndindex(40, 4):
            entry = small.shown[i, k]
            usual = np.mean([look(draw, entry) for draw in small.sampled[i]])
            total += small.gains[i, k] * look(small.candidates[0, i], entry) / usual
        assert self.value(small, Examined()) == pytest.approx(total / 40)

    def test_doubly_robust_corrects_the_direct_method(self, small):
        rewards = Rewards(small, "clicks")
        browsing = Browsing(small, rewards.happened, bias=1.0)
        expected = small.gains * 0.0
        for i, k in np.ndindex(40, 4):
            expected[i, k] = browsing.attraction[small.shown[i, k]] / (k + 1)
        residual = Lists(
            small.covariates, small.rows, small.shown, small.gains - expected, small.sampled, small.candidates
        )
        corrected = Rewards(small, "clicks")
        corrected.gains = residual.gains
        correction = Examined().contributions(corrected, browsing.looks, small.candidates[0]).values.mean()
        found = self.value(small, DirectMethod()) + correction
        assert self.value(small, DoublyRobust()) == pytest.approx(found)


class TestEstimates:
    @pytest.mark.parametrize("reward", ["clicks", "first"])
    def test_intervals_contain_the_truth(self, reward):
        goes_on, attraction, covered = np.array([0.5, 0.7, 0.8]), np.array([0.9, 0.5, 0.3, 0.1]), 0
        seen = np.cumprod([1.0, *goes_on])
        passed = np.cumprod([1.0, *(1.0 - attraction[:3])]) if reward == "first" else np.ones(4)
        worth = 1.0 / np.arange(1, 5) if reward == "first" else np.ones(4)
        truth = float((seen * passed * attraction * worth).sum())
        for seed in range(40):
            lists, _ = random_log(1_500, goes_on, seed, attraction)
            each = evaluate_lists(lists, ["sorted"], reward).candidates[0]
            covered += each.low <= truth <= each.high
            assert each.verdict == "better"
        assert covered >= 36  # of 40: P(fewer) is 1.4% if coverage is 95%; the seeds are fixed

    def test_the_policy_itself_is_worth_what_was_shown(self):
        lists, _ = random_log(2_000, (0.5, 0.5, 0.5))
        lists.candidates = lists.sampled[None, :, 1]
        each = evaluate_lists(lists, ["another draw"]).candidates[0]
        assert each.difference_low <= 0.0 <= each.difference_high

    def test_weighted_actions(self):
        lists, _ = random_log(1_000, (1.0, 1.0, 1.0))
        clicks = evaluate_lists(lists, ["one"]).candidates[0].value
        lists.gains = lists.gains * 10.0
        assert evaluate_lists(lists, ["one"], "actions").candidates[0].value == pytest.approx(10.0 * clicks)

    def test_equal_logs_give_equal_results(self):
        found = [evaluate_lists(random_log(600, (0.5, 0.5, 0.5))[0], ["one"]) for _ in range(2)]
        assert found[0] == found[1]


class TestRefusals:
    def test_a_deterministic_log(self):
        rng = np.random.default_rng(1)
        log = [([[0.0], [1.0], [2.0]], [2, 1, 0], rng.random(3) < 0.5) for _ in range(1_000)]
        each = evaluate(log, {"reversed": [-1.0]}).candidates[0]
        assert each.verdict == "unknown"
        assert np.isnan(each.value)
        assert each.reason == (
            "cannot be told from this log, because none of 1,000 lists might have had another order, which does not show how far "
            f"users look; at least {FEWEST_VARIED} are needed, or a known bias of positions"
        )
        known = evaluate(log, {"reversed": [-1.0], "same": [1.0]}, bias=0.0)
        assert [round(each.difference, 9) for each in known.candidates] == [0.0, 0.0]

    def test_documents_that_could_not_have_been_shown(self):
        rng = np.random.default_rng(1)
        tops = np.array([[0, 1], [1, 0]])
        log = [
            (np.arange(4.0)[:, None], top, rng.random(2) < 0.5, rng.choice(tops, 31)) for top in rng.choice(tops, 1_000)
        ]
        each = evaluate(log, {"highest first": [1.0]}).candidates[0]
        assert each.verdict == "unknown"
        assert each.unsupported == pytest.approx(1.0)
        assert "100% of what its users would look at are documents that could not have been shown" in each.reason

    def test_first_actions_below_documents_that_always_have_one(self):
        """The sure document is nearly always above the others, so nothing is known of these as a first choice."""
        rng, logged = np.random.default_rng(1), []
        tops = np.array([[0, 1, 2], [0, 2, 1]])
        for number in range(1_000):
            shown = tops[number % 2]
            gains = np.array([1.0, 0.0, 0.0])
            known = np.array([[1.0], [0.0], [0.0]]) + rng.normal(0.0, 0.01, (3, 1))
            logged.append(LoggedList(known, shown, gains, rng.choice(tops, 31), np.array([[1, 2, 0]])))
        each = evaluate_lists(Lists.of(logged), ["the others first"], "first").candidates[0]
        assert each.verdict == "unknown"
        assert "could not have been shown" in each.reason

    def test_no_action(self):
        lists, _ = random_log(600, (0.0, 0.0, 0.0), attraction=np.zeros(4))
        assert "no list of the log has an action" in evaluate_lists(lists, ["one"]).candidates[0].reason

    @pytest.mark.parametrize(
        ("log", "message"),
        [
            ([], "the log has no lists"),
            ([(1, 2)], "each entry of a log must be"),
            ([([[1.0]], [3], [1])], "the shown rows must be different numbers from 0 to 0"),
            ([([[1.0]], [0], [1, 0])], "1 documents were shown, but the feedback is on 2"),
            ([([[1.0]], [0], [1], [[7]])], "other lists must be rows from 0 to 0"),
        ],
    )
    def test_invalid_logs(self, log, message):
        with pytest.raises(DuelrankError, match=message):
            evaluate(log, [[1.0]])

    def test_unknown_rewards(self):
        with pytest.raises(DuelrankError, match="reward must be one of clicks, first, actions"):
            evaluate([([[1.0]], [0], [1])], [[1.0]], reward="money")


class TestLists:
    def test_a_large_log_is_thinned_evenly(self):
        each = LoggedList(np.ones((5, 10)), np.arange(5), np.zeros(5), np.empty((0, 0), int), np.empty((0, 5), int))
        numbered = (each._replace(gains=np.full(5, float(number))) for number in range(1_000))
        lists = Lists.of(numbered, max_values=50 * 100)
        assert 50 <= len(lists) <= 100
        assert set(np.diff(lists.gains[:, 0])) == {16.0}

    def test_the_list_itself_is_one_of_the_draws(self):
        sampled = np.array([[1, 0], [1, 0], [1, 0]])
        lists = Lists.of([LoggedList(np.eye(2), np.array([0, 1]), np.zeros(2), sampled, np.empty((0, 2), int))])
        assert lists.sampled[0].tolist() == [[0, 1], [1, 0], [1, 0], [1, 0]]
        assert lists.varied.tolist() == [True]

    def test_missing_values_are_in_the_middle(self):
        features = np.array([[1.0, np.nan], [3.0, 7.0], [2.0, 7.0]])
        lists = Lists.of([LoggedList(features, np.arange(3), np.zeros(3), np.empty((0, 0), int), np.arange(3)[None])])
        assert lists.covariates.tolist() == [[1.0, 0.0, 0.5], [1.0, 1.0, 0.5], [1.0, 0.5, 0.5]]


def test_result_as_text_and_as_plain_values():
    lists, _ = random_log(1_500, (0.5, 0.5, 0.5), attraction=np.array([0.9, 0.5, 0.3, 0.1]))
    found = evaluate_lists(lists, ["sorted"])
    assert "sorted: better than what was shown, by about" in str(found)
    assert found.to_dict()["candidates"][0]["verdict"] == "better"
    refused = evaluate([([[1.0]], [0], [1])] * 10, [[1.0]])
    assert refused.to_dict()["candidates"][0]["value"] is None
    assert "cannot be told" in str(refused)


def test_estimators_are_parsed_by_name():
    assert {"DoublyRobust", "Examined", "ItemPosition", "RewardInteraction", "DirectMethod"} <= set(names(Estimator))
    assert parse("Examined(self_normalised=True)", Estimator) == Examined(True)


class TestSample:
    def test_draws_follow_the_closed_form_of_plackett_luce(self):
        learner = Learner("pdgd", n_features=1, weights=[2.0], length=2)
        query = Query("q", [[0.0], [0.5], [1.0]])
        drawn = learner.sample(query, 20_000)
        expected = np.exp(2.0 * query.features[:, 0])
        shares = np.bincount(drawn[:, 0], minlength=3) / 20_000
        assert_allclose(shares, expected / expected.sum(), atol=0.015)

    def test_draws_change_nothing(self):
        one, other = (Learner("mgd-dsp", n_features=2, seed=3) for _ in range(2))
        query = Query("q", np.random.default_rng(1).random((5, 2)))
        one.sample(query, 10)
        for _ in range(3):
            shown = one.rank(query), other.rank(query)
            assert shown[0] == shown[1]
            for learner, each in zip((one, other), shown, strict=True):
                learner.learn(each, Feedback(np.arange(5) == 1))
        assert one.weights.tolist() == other.weights.tolist()
