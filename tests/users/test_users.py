"""Simulated users: the published probabilities, and clicks that follow them."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream
from duelrank.kernels.random import uniform
from duelrank.users import Cascade, Preset

ALPHA = 1e-4

# user, click and stop probabilities for 5, 3 and 2 grades, as the literature has them
TABLE = {
    "perfect": [
        ((0, 0.2, 0.4, 0.8, 1), (0, 0, 0, 0, 0)),
        ((0, 0.5, 1), (0, 0, 0)),
        ((0, 1), (0, 0)),
    ],
    "navigational": [
        ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
        ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        ((0.05, 0.95), (0.2, 0.9)),
    ],
    "informational": [
        ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
        ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        ((0.4, 0.9), (0.1, 0.5)),
    ],
    "almost-random": [
        ((0.4, 0.45, 0.5, 0.55, 0.6), (0.5,) * 5),
        ((0.4, 0.5, 0.6), (0.5,) * 3),
        ((0.4, 0.6), (0.5,) * 2),
    ],
}


def grades(values) -> np.ndarray:
    return np.array(values, np.int8)


class TestPreset:
    @pytest.mark.parametrize("behaviour", TABLE)
    @pytest.mark.parametrize("rule", [True, False])
    def test_the_table(self, behaviour, rule):
        for click, stop in TABLE[behaviour]:
            assert Preset(behaviour, rule).for_grades(len(click)) == Cascade(click, stop, rule)

    @pytest.mark.parametrize("n", [0, 1, 4, 6])
    def test_other_numbers_of_grades_are_refused_with_what_is_possible(self, n):
        with pytest.raises(InvalidValue, match=f"2, 3, 5 grades, but the data has {n}"):
            Preset().for_grades(n)

    def test_it_cannot_click_before_the_grades_are_known(self):
        with pytest.raises(InvalidValue, match="for_grades"):
            Preset().click(grades([1]), stream(0, "user"))

    def test_an_unknown_behaviour_lists_the_known_ones(self):
        with pytest.raises(InvalidRecipe, match="'perfect' or 'navigational' or 'informational' or 'almost-random'"):
            Preset("bored")


def outcomes(user: Cascade, labels) -> dict[tuple[tuple[bool, ...], int], float]:
    """Every outcome (clicks, examined) with its probability, by following both coins at each position."""
    found: Counter = Counter()
    for coins in product((True, False), repeat=2 * len(labels)):
        clicks, examined, chance = [False] * len(labels), len(labels), 1.0
        for position, label in enumerate(labels):
            heads, stops = coins[2 * position], coins[2 * position + 1]
            click, stop = user.click_probability[label], user.stop_probability[label]
            chance *= (click if heads else 1 - click) * (stop if stops else 1 - stop)
        for position in range(len(labels)):
            clicks[position] = coins[2 * position]
            if coins[2 * position + 1] and (user.stop_without_click or clicks[position]):
                examined = position + 1
                break
        found[tuple(clicks[:examined]) + (False,) * (len(labels) - examined), examined] += chance
    return {outcome: chance for outcome, chance in found.items() if chance > 0}


class TestCascade:
    @pytest.mark.parametrize("rule", [True, False], ids=["may stop anywhere", "stops after clicks"])
    @pytest.mark.parametrize("labels", [[0], [2, 0], [0, 1, 2]], ids=str)
    def test_outcomes_follow_the_enumeration_of_all_coins(self, rule, labels):
        user, n = Cascade((0.3, 0.5, 0.8), (0.2, 0.4, 0.7), rule), 20_000
        coins = stream(1, "user")
        found: Counter = Counter()
        for _ in range(n):
            feedback = user.click(grades(labels), coins)
            found[tuple(feedback.clicks.tolist()), feedback.examined] += 1
        expected = outcomes(user, labels)
        assert sum(expected.values()) == pytest.approx(1.0)
        assert set(found) <= set(expected)
        assert stats.chisquare([found[key] for key in expected], [n * p for p in expected.values()]).pvalue > ALPHA

    def test_the_two_stopping_rules_differ(self):
        labels, never_clicks = grades([0, 0, 0]), ((0.0,), (1.0,))
        assert Cascade(*never_clicks, True).click(labels, stream(0, "user")).examined == 1
        assert Cascade(*never_clicks, False).click(labels, stream(0, "user")).examined == 3

    def test_a_user_who_clicks_all_and_never_stops(self):
        feedback = Cascade((1.0,), (0.0,)).click(grades([0] * 10), stream(0, "user"))
        assert feedback.clicks.all()
        assert feedback.examined == 10

    def test_an_empty_list_has_no_clicks(self):
        feedback = Cascade().click(grades([]), stream(0, "user"))
        assert (feedback.clicks.size, feedback.examined) == (0, 0)

    @given(st.lists(st.integers(0, 2), max_size=10), st.integers(0, 10_000), st.booleans())
    def test_no_click_below_what_was_examined(self, labels, number, rule):
        feedback = Cascade(stop_without_click=rule).click(grades(labels), stream(2, "user", number))
        assert feedback.clicks.shape == (len(labels),)
        assert not feedback.clicks[feedback.examined :].any()
        assert min(1, len(labels)) <= feedback.examined <= len(labels)

    @given(st.lists(st.integers(0, 2), max_size=8), st.integers(0, 10_000))
    def test_two_coins_are_thrown_per_examined_position(self, labels, number):
        thrown, counted = stream(3, "user", number), stream(3, "user", number)
        user = Cascade()
        feedback = user.click(grades(labels), thrown)
        coins = [(uniform(counted), uniform(counted)) for _ in range(feedback.examined)]
        assert np.array_equal(thrown, counted)
        for (click, _), label, clicked in zip(coins, labels, feedback.clicks, strict=False):
            assert clicked == (click < user.click_probability[label])

    @given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.integers(0, 2), st.integers(0, 1000))
    def test_one_stream_is_one_user_on_any_list(self, labels, other, number):
        """Changing the last document changes nothing above it."""
        changed = [*labels[:-1], other]
        one = Cascade().click(grades(labels), stream(4, "user", number)).clicks
        two = Cascade().click(grades(changed), stream(4, "user", number)).clicks
        assert one[:-1].tolist() == two[:-1].tolist()

    @pytest.mark.parametrize(("click", "stop"), [((0.5,), (0.5, 0.5)), ((), ()), ((0.1, 0.2), (0.1,))])
    def test_every_grade_needs_both_probabilities(self, click, stop):
        with pytest.raises(InvalidRecipe, match=f"got {len(click)} and {len(stop)}"):
            Cascade(click, stop)

    @pytest.mark.parametrize("bad", [(1.5,), (-0.1,), (float("nan"),), ("x",), (None,), 0.5, None])
    def test_probabilities_lie_between_zero_and_one(self, bad):
        with pytest.raises(InvalidRecipe, match="from 0 to 1"):
            Cascade(bad, (0.5,))

    def test_more_grades_than_probabilities_are_refused(self):
        assert Cascade().for_grades(3) == Cascade().for_grades(2) == Cascade()
        with pytest.raises(InvalidValue, match="3 grades, but the data has 5"):
            Cascade().for_grades(5)

    @pytest.mark.parametrize("label", [3, -1])
    def test_a_grade_without_a_probability_is_refused(self, label):
        with pytest.raises(InvalidValue):
            Cascade().click(grades([label]), stream(0, "user"))
