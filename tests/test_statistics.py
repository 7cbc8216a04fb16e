"""The sign test, the test that is valid whenever one looks, the test of a mean from its sums, and Holm's correction."""

from fractions import Fraction
from math import comb, exp, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from duelrank.core.errors import InvalidValue
from duelrank.core.statistics import _PRIORS, anytime_test, holm, mean_test, sign_test, student_quantile, student_test
from duelrank.guard import EValue


class TestSign:
    @given(st.integers(0, 12), st.integers(0, 12))
    def test_is_twice_the_smaller_tail(self, wins, losses):
        n = wins + losses
        tail = sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
        assert sign_test(wins, losses) == pytest.approx(min(1.0, 2 * tail))

    @pytest.mark.parametrize(("wins", "losses"), [(520, 480), (10_200, 10_000), (10**6, 998_000), (3000, 1)])
    def test_of_many_lists_is_scipys(self, wins, losses):
        wanted = stats.binomtest(wins, wins + losses).pvalue
        assert sign_test(wins, losses) == sign_test(losses, wins) == pytest.approx(wanted, rel=1e-8)


class TestStudent:
    @pytest.mark.parametrize("freedom", [1, 2, 4, 14, 44, 999])
    def test_p_values_are_scipys_far_into_the_tail(self, freedom):
        for t in (1e-6, 0.1, 0.7, 1.0, 2.1, 5.0, 30.0, 1e4):
            assert student_test(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-10, abs=1e-300)
            assert student_test(-t, freedom) == student_test(t, freedom)

    def test_no_difference_and_an_endless_one(self):
        assert student_test(0.0, 5) == 1.0
        assert student_test(1e200, 5) == 0.0

    def test_what_is_no_number_has_no_p_value(self):
        assert isnan(student_test(nan, 5))  # and comes back at all

    @pytest.mark.parametrize("freedom", [1, 2, 4, 14, 44, 999])
    @pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
    def test_quantiles_are_scipys(self, level, freedom):
        assert student_quantile(level, freedom) == pytest.approx(special.stdtrit(freedom, (1 + level) / 2), rel=1e-10)

    @pytest.mark.parametrize("level", [-0.5, 0.0, 1.0, 95, nan])
    def test_a_level_that_is_none_is_refused(self, level):
        with pytest.raises(InvalidValue, match="level must be between 0 and 1"):
            student_quantile(level, 4)


def exact_anytime(wins: int, losses: int) -> Fraction:
    """Return 1 / e, where each Beta(a, a) mixture is one prediction after the other: wins so far + a, of all + 2 a."""
    factors = [Fraction(0)] * len(_PRIORS)
    for place, a in enumerate(_PRIORS):
        ratio, counts = Fraction(1), [Fraction(a), Fraction(a)]
        for side in [0] * wins + [1] * losses:
            ratio *= 2 * counts[side] / sum(counts)
            counts[side] += 1
        factors[place] = ratio
    return min(Fraction(1), len(_PRIORS) / sum(factors))


class TestAnytime:
    @given(st.integers(0, 60), st.integers(0, 60))
    def test_is_the_inverse_of_predictions_against_a_coin(self, wins, losses):
        assert anytime_test(wins, losses) == pytest.approx(float(exact_anytime(wins, losses)), rel=1e-9)

    def test_has_the_mean_of_both_e_values_as_its_first_part(self):
        """The part of a = 1 is the mean of both directions of the e-value of a guard."""
        for wins, losses in ((30, 3), (3, 30)):
            both = np.logaddexp(EValue(wins, losses).log, EValue(losses, wins).log) - np.log(2)
            assert anytime_test(wins, losses) <= len(_PRIORS) * exp(-both)

    def test_both_sides_are_alike(self):
        assert anytime_test(3, 17) == anytime_test(17, 3)
        assert anytime_test(0, 0) == anytime_test(5, 5) == 1.0

    @pytest.mark.parametrize("lead", [0, 10**4, 10**6, 10**9])
    def test_after_a_billion_lists(self, lead):
        p = anytime_test((10**9 + lead) // 2, (10**9 - lead) // 2)
        assert 0.0 <= p <= 1.0
        assert (p < 1e-6) == (lead > 10**5)

    def test_its_level_holds_however_often_one_looks(self):
        """After each of 3,000 lists."""
        wins = np.cumsum(np.random.default_rng(1).random((1000, 3000)) < 0.5, axis=1)
        n = np.arange(1, 3001)
        parts = [n * np.log(2) + special.betaln(wins + a, n - wins + a) - special.betaln(a, a) for a in _PRIORS]
        p_values = np.minimum(len(parts) / np.exp(parts).sum(axis=0), 1.0)
        assert p_values[:, 999] == pytest.approx([anytime_test(each, 1000 - each) for each in wins[:, 999]])
        for level in (0.05, 0.2):
            found = (p_values.min(axis=1) <= level).mean()
            assert 0.0 < found <= level + 4 * np.sqrt(level * (1 - level) / 1000)


class TestMean:
    def test_is_the_normal_test_of_a_mean(self):
        values = np.random.default_rng(1).normal(0.1, 1.0, 200)
        wanted = 2 * stats.norm.sf(abs(values.mean()) / (values.std(ddof=1) / np.sqrt(200)))
        assert mean_test(200, values.sum(), np.square(values).sum()) == pytest.approx(wanted)

    def test_all_zero_is_no_difference(self):
        assert mean_test(5, 0.0, 0.0) == 1.0
        assert mean_test(0, 0.0, 0.0) == 1.0

    def test_without_spread_there_is_no_test(self):
        assert isnan(mean_test(1, 2.0, 4.0))
        assert isnan(mean_test(10, 1.0, 0.1))


class TestHolm:
    def test_worked_by_hand(self):
        # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04, and the last is raised to the one before it
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
        assert holm([0.6, 0.7]) == [1.0, 1.0]
        assert holm([]) == []

    def test_what_is_no_test_does_not_count(self):
        corrected = holm([0.01, nan, 0.04])
        assert isnan(corrected[1])
        assert [corrected[0], corrected[2]] == pytest.approx(holm([0.01, 0.04]))

    @given(st.lists(st.floats(0, 1), max_size=12))
    def test_is_its_definition(self, values):
        corrected = holm(values)
        order = np.argsort(values, kind="stable")
        for rank, place in enumerate(order):
            steps = [(len(values) - i) * values[order[i]] for i in range(rank + 1)]
            assert corrected[place] == pytest.approx(min(1.0, max(steps)))

    @given(st.lists(st.floats(0, 1), max_size=12))
    def test_keeps_order_and_bounds(self, values):
        corrected = holm(values)
        assert all(before <= after <= 1.0 for before, after in zip(values, corrected, strict=True))
        in_order = [after for _, after in sorted(zip(values, corrected, strict=True))]
        assert in_order == sorted(in_order)
