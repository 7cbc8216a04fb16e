"""The sign test, the test of a mean from its sums, and Holm's correction."""

from math import comb, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from duelrank.statistics import holm, mean_test, sign_test


class TestSign:
    @given(st.integers(0, 12), st.integers(0, 12))
    def test_is_twice_the_smaller_tail(self, wins, losses):
        n = wins + losses
        tail = sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
        assert sign_test(wins, losses) == pytest.approx(min(1.0, 2 * tail))


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
