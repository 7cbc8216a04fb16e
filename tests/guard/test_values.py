"""The values of a guard: equal to slow, obvious twins, plain numbers after any number of lists, and stored as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream
from duelrank.guard import ConfidenceSequence, Detector, EValue
from duelrank.guard.detector import _MOST, ALTERNATIVES, MOST_MARGIN
from duelrank.kernels import guard as kernels
from duelrank.testing import evidence as twins

BILLION = 10**9
OUTCOMES = st.lists(st.booleans(), max_size=60)
COUNTS = st.integers(0, 400)


def updated(value: Detector, won: Sequence[bool]) -> Detector:
    for each in won:
        value = value.update(each)
    return value


class TestDetector:
    @examples(100)
    @given(OUTCOMES, st.sampled_from([0.0, 0.05, MOST_MARGIN]))
    def test_it_sums_over_all_times_at_which_harm_may_have_begun(self, won: list[bool], margin: float) -> None:
        detector = updated(Detector(margin=margin), won)
        expected = [twins.evidence(each, margin, won) for each in ALTERNATIVES]
        np.testing.assert_allclose(detector.evidence, expected, rtol=1e-10)
        assert detector.statistic == pytest.approx(np.mean(expected))

    @examples(50)
    @given(st.integers(0, 2**62), st.sampled_from([0.0, 0.1]), st.sampled_from([0.3, 0.5]))
    def test_the_compiled_one_is_the_same_to_the_bit(self, seed: int, margin: float, rate: float) -> None:
        won = kernels.outcomes(np.full(400, rate), stream(seed, "outcomes"))
        evidence = np.zeros(len(ALTERNATIVES))
        taken, statistic = kernels.detect(evidence, np.array(ALTERNATIVES), margin, _MOST, 1000.0, won)
        detector, lists = Detector(1000.0, margin), 0
        while not detector.alarm and lists < len(won):
            detector, lists = detector.update(bool(won[lists])), lists + 1
        assert taken == lists + (not detector.alarm)
        assert detector.evidence == tuple(evidence.tolist())
        assert detector.statistic == statistic

    def test_evidence_goes_up_with_losses_to_a_bound_and_comes_down_with_wins(self) -> None:
        """100,000 losses would be 10^14,613 for the lowest alternative."""
        high = updated(Detector(), [False] * 100_000)
        assert high.evidence == (_MOST,) * len(ALTERNATIVES)
        assert high.alarm
        assert Detector.from_dict(json.loads(json.dumps(high.to_dict()))) == high
        low = updated(high, [True] * 100_000)
        assert not low.alarm
        # For ever won, M = (M + 1) L has one solution.
        fixed = [
            twins.likelihood_ratio(p, 0.0, True) / (1.0 - twins.likelihood_ratio(p, 0.0, True)) for p in ALTERNATIVES
        ]
        np.testing.assert_allclose(low.evidence, fixed)

    def test_the_bound_is_far_above_any_threshold(self) -> None:
        assert Detector(1e15, evidence=(_MOST,) * len(ALTERNATIVES)).update(True).alarm

    def test_the_alarm_is_raised_at_the_threshold(self) -> None:
        assert Detector(100.0, evidence=(100.0,) * 5).alarm
        assert not Detector(100.0, evidence=(100.0,) * 4 + (99.0,)).alarm

    def test_with_a_margin_it_takes_more_losses(self) -> None:
        lists = {}
        for margin in (0.0, 0.1):
            evidence = np.zeros(len(ALTERNATIVES))
            lists[margin], _ = kernels.detect(
                evidence, np.array(ALTERNATIVES), margin, _MOST, 1e6, np.zeros(1000, bool)
            )
        assert lists[0.0] < lists[0.1] <= 1000

    def test_without_a_past(self) -> None:
        assert updated(Detector(50.0, 0.1), [False] * 9).reset() == Detector(50.0, 0.1)

    @pytest.mark.parametrize("every", [0.0, 0.99, -1.0, 1.1e15, math.inf, math.nan])
    def test_other_thresholds_are_refused(self, every: float) -> None:
        with pytest.raises(InvalidValue, match="from 1 to 10\\^15"):
            Detector(every)

    @pytest.mark.parametrize("margin", [-0.01, 0.26, math.nan])
    def test_other_margins_are_refused(self, margin: float) -> None:
        with pytest.raises(InvalidValue, match="margin"):
            Detector(margin=margin)

    @pytest.mark.parametrize(
        "evidence", [(), (1.0,) * 4, (1.0,) * 4 + (-1.0,), (1.0,) * 4 + (math.nan,), (math.inf,) * 5]
    )
    def test_other_evidence_is_refused(self, evidence: tuple[float, ...]) -> None:
        with pytest.raises(InvalidValue, match="5 numbers of evidence"):
            Detector(evidence=evidence)


class TestConfidenceSequence:
    @examples(100)
    @given(COUNTS, COUNTS, st.floats(1e-6, 0.999))
    def test_it_is_the_published_formula(self, wins: int, losses: int, level: float) -> None:
        sequence = ConfidenceSequence(wins, losses, level)
        low, high = sequence.interval
        if not wins + losses:
            assert (sequence.rate, low, high) == (0.5, 0.0, 1.0)
            return
        n = wins + losses
        half = twins.half_width(np.array(n), level)
        assert sequence.rate == wins / n
        assert sequence.half_width == pytest.approx(half)
        assert (low, high) == pytest.approx((max(wins / n - half, 0), min(wins / n + half, 1)))

    @examples(50)
    @given(OUTCOMES)
    def test_it_counts(self, won: list[bool]) -> None:
        sequence = ConfidenceSequence(level=0.01)
        for each in won:
            sequence = sequence.update(each)
        assert sequence == ConfidenceSequence(sum(won), len(won) - sum(won), 0.01)

    def test_after_a_billion_lists(self) -> None:
        low, high = ConfidenceSequence(BILLION // 2, BILLION // 2).interval
        assert 0.4999 < low < 0.5 < high < 0.5001
        assert high - low == pytest.approx(2 * float(twins.half_width(np.array(float(BILLION)), 0.05)))
        assert ConfidenceSequence(BILLION, 0).update(True).interval[1] == 1.0
        assert ConfidenceSequence(0, BILLION).update(False).interval[0] == 0.0

    def test_a_tiny_level_does_not_vanish_when_it_is_squared(self) -> None:
        assert 0.0 < ConfidenceSequence(50_000, 50_000, 1e-300).half_width < 0.2

    def test_the_widths_that_are_told(self) -> None:
        widths = [ConfidenceSequence(n // 2, n // 2).half_width for n in (1_000, 10_000, 100_000)]
        assert [f"{each:.2g}" for each in widths] == ["0.05", "0.016", "0.0054"]

    @pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
    def test_other_levels_are_refused(self, level: float) -> None:
        with pytest.raises(InvalidValue, match="between 0 and 1"):
            ConfidenceSequence(level=level)
        with pytest.raises(InvalidValue, match="between 0 and 1"):
            EValue(9, 1).proves(level)


class TestEValue:
    @examples(150)
    @given(COUNTS, COUNTS)
    def test_it_is_the_exact_sum(self, wins: int, losses: int) -> None:
        exact, value = twins.e_value(wins, losses), EValue(wins, losses)
        assert value.log == pytest.approx(math.log(exact.numerator) - math.log(exact.denominator), rel=1e-9, abs=1e-10)
        assert value.value == pytest.approx(float(min(exact, 10**299)), rel=1e-9)

    @examples(100)
    @given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.2, 0.05, 0.01, 1e-4]))
    def test_it_proves_exactly_from_one_over_the_level(self, wins: int, losses: int, level: float) -> None:
        exact = twins.e_value(wins, losses)
        if abs(float(exact) * level - 1.0) > 1e-9:  # nearer, rounding may decide
            assert EValue(wins, losses).proves(level) == (float(exact) >= 1 / level)

    @pytest.mark.parametrize(("wins", "losses"), [(3, 5), (5, 3), (20, 20), (0, 7), (90, 60)])
    def test_its_next_value_is_the_same_on_average_where_the_chance_is_one_half(self, wins: int, losses: int) -> None:
        now = EValue(wins, losses)
        assert (now.update(True).value + now.update(False).value) / 2 == pytest.approx(now.value)

    def test_the_mean_of_both_directions_is_the_integral_over_all_chances(self) -> None:
        for wins, losses in ((0, 0), (7, 3), (40, 60)):
            n = wins + losses
            both = (EValue(wins, losses).value + EValue(losses, wins).value) / 2
            assert both == pytest.approx(2.0**n / ((n + 1) * math.comb(n, wins)))

    @pytest.mark.parametrize("lead", [-BILLION, -(10**6), -1000, -2, 0, 2, 1000, 10**6, BILLION])
    def test_after_a_billion_lists(self, lead: int) -> None:
        """By the normal approximation, e = sqrt(2π/n) exp(lead²/2n) Φ(lead/√n), where the lead is not too large for it."""
        wins, losses = (BILLION + lead) // 2, (BILLION - lead) // 2
        value = EValue(wins, losses)
        assert math.isfinite(value.log)
        assert 0.0 < value.value <= 1.1e300
        assert value.proves(1e-9) == (lead > 10**5)
        if abs(lead) <= 1000:
            below = 0.5 * math.erfc(-lead / math.sqrt(2 * BILLION))
            expected = math.sqrt(2 * math.pi / BILLION) * math.exp(lead**2 / (2 * BILLION)) * below
            assert value.value == pytest.approx(expected, rel=1e-3)

    def test_more_wins_are_more_evidence_also_where_the_way_of_computing_changes(self) -> None:
        for n in (10, 101, 10**6):
            around = range(n // 2 - 3, n // 2 + 4)
            logs = [EValue(wins, n - wins).log for wins in around]
            assert logs == sorted(logs)
            assert len(set(logs)) == len(logs)


@pytest.mark.parametrize(
    "value",
    [
        Detector(5000.0, 0.02, (0.1, 1 / 3, 2e99, 0.0, 7.0)),
        updated(Detector(), [False, True, False]),
        ConfidenceSequence(BILLION, BILLION + 1, 0.01),
        EValue(BILLION, 3),
    ],
    ids=lambda value: type(value).__name__,
)
class TestStoring:
    def test_a_stored_value_is_equal(self, value: Detector | ConfidenceSequence | EValue) -> None:
        restored = type(value).from_dict(json.loads(json.dumps(value.to_dict())))
        assert restored == value
        assert restored.update(True) == value.update(True)

    def test_a_damaged_one_is_refused(self, value: Detector | ConfidenceSequence | EValue) -> None:
        plain = value.to_dict()
        damages = [{**plain, "stranger": 1}, []]
        for name, stored in plain.items():
            damages += [{**plain, name: each} for each in ("many", None, [stored], -1)]
        for damage in damages:
            with pytest.raises(InvalidValue):
                type(value).from_dict(damage)

    def test_it_cannot_be_changed(self, value: Detector | ConfidenceSequence | EValue) -> None:
        with pytest.raises(AttributeError):
            setattr(value, next(iter(value.to_dict())), 1)


def test_fewer_than_no_lists_are_refused() -> None:
    for kind in (ConfidenceSequence, EValue):
        for counts in ((-1, 0), (0, -1)):
            with pytest.raises(InvalidValue, match="from 0 up"):
                kind(*counts)
