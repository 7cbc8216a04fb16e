"""Users made of other users: turned around, mixed, and changing over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank import parse
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream
from duelrank.core.registry import aliases
from duelrank.users import Cascade, IntentDrift, Mixture, Opposed, Preset, User

LISTS = st.lists(st.integers(0, 2), max_size=8)
ALL, NONE = Cascade((1.0,) * 3, (0.0,) * 3), Cascade((0.0,) * 3, (0.0,) * 3)


def grades(values) -> np.ndarray:
    return np.array(values, np.int8)


def clicked(user: User, step: int, number: int = 0) -> bool:
    return bool(user.at(step).click(grades([0]), stream(5, "user", number)).clicks[0])


@pytest.mark.parametrize("name", sorted(set(aliases(User))))
def test_users_with_short_names_never_change(name):
    user = parse(name).for_grades(3)
    assert all(user.at(step) is user for step in (0, 1, 10**9))


class TestOpposed:
    @given(LISTS, st.integers(0, 1000))
    def test_it_clicks_as_its_base_on_turned_grades(self, labels, number):
        turned = [2 - label for label in labels]
        one, two = (stream(6, "user", number) for _ in range(2))
        base = Cascade()
        assert Opposed(base).for_grades(3).click(grades(labels), one) == base.click(grades(turned), two)

    def test_the_opposite_of_perfect_clicks_what_is_irrelevant(self):
        user = Opposed(Preset("perfect")).for_grades(2)
        assert user.click(grades([0, 1, 0]), stream(0, "user")).clicks.tolist() == [True, False, True]

    def test_twice_opposed_is_not_opposed(self):
        for number in range(100):
            one, two = (
                user.for_grades(5).click(grades([0, 4, 2, 1]), stream(7, "user", number))
                for user in (Opposed(Opposed(Preset())), Preset())
            )
            assert one == two

    def test_grades_come_first(self):
        with pytest.raises(InvalidValue, match=r"Opposed\(\)\.for_grades\(3\)"):
            Opposed().click(grades([0]), stream(0, "user"))
        with pytest.raises(InvalidValue, match="2, 3, 5 grades"):
            Opposed().for_grades(4)


class TestMixture:
    def test_share(self):
        """Of n lists the other user sees a share of p: within 4 standard errors, √(p(1 − p)/n)."""
        n, p = 20_000, 0.3
        user = Mixture(NONE, ALL, p)
        found = np.mean([clicked(user, 0, number) for number in range(n)])
        assert abs(found - p) < 4 * np.sqrt(p * (1 - p) / n)

    @pytest.mark.parametrize(("share", "expected"), [(0.0, False), (1.0, True)])
    def test_ends(self, share, expected):
        user = Mixture(NONE, ALL, share)
        assert {clicked(user, 0, number) for number in range(200)} == {expected}

    def test_both_learn_the_grades(self):
        assert Mixture().for_grades(5) == Mixture(Preset().for_grades(5), Preset("informational").for_grades(5))


class TestIntentDrift:
    def test_a_sudden_change(self):
        user = IntentDrift(NONE, ALL, start=3)
        assert [clicked(user, step) for step in range(6)] == [False] * 3 + [True] * 3
        assert user.at(2) is NONE
        assert user.at(3) is ALL

    def test_a_gradual_change_goes_up_in_equal_steps(self):
        user = IntentDrift(NONE, ALL, start=10, over=4)
        assert user.at(9) is NONE
        shares = [user.at(step).share for step in range(10, 14)]
        assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8])
        assert user.at(14) is ALL

    def test_the_same_coins_choose_the_same_users(self):
        user = IntentDrift(NONE, ALL, start=0, over=100)
        runs = [[clicked(user, step, step) for step in range(100)] for _ in range(2)]
        assert runs[0] == runs[1]
        assert 0 < sum(runs[0][:50]) < sum(runs[0][50:]) < 50

    def test_what_is_relevant_can_change(self):
        user = IntentDrift(Preset("perfect"), Opposed(Preset("perfect")), start=1).for_grades(2)
        lists = [user.at(step).click(grades([1, 0]), stream(0, "user")).clicks.tolist() for step in (0, 1)]
        assert lists == [[True, False], [False, True]]

    @pytest.mark.parametrize(
        "wrapped",
        [
            lambda drift: Opposed(drift),
            lambda drift: Mixture(drift, drift, 0.5),
            lambda drift: IntentDrift(drift, drift, start=7),
            lambda drift: IntentDrift(drift, drift, start=0, over=10),
        ],
        ids=["opposed", "mixture", "drift", "slow drift"],
    )
    def test_wrappers_pass_the_time_on(self, wrapped):
        user = wrapped(IntentDrift(NONE, ALL, start=5)).for_grades(3)
        assert [clicked(user, step) for step in range(10)] == [False] * 5 + [True] * 5

    def test_the_number_of_the_impression_comes_first(self):
        with pytest.raises(InvalidValue, match=r"\.at\(0\)\.click"):
            IntentDrift().for_grades(3).click(grades([0]), stream(0, "user"))

    def test_from_text(self):
        text = "IntentDrift(before=pbm, after=Opposed(pbm), start=100, over=50)"
        assert parse(text, User) == IntentDrift(parse("pbm"), Opposed(parse("pbm")), 100, 50)
        with pytest.raises(InvalidRecipe, match="at least 0"):
            parse("IntentDrift(start=-1)")
