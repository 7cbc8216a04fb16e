"""The sequential tests: equal to their definitions, finite after any number of lists, stored as JSON, valid at all times."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.effort import examples

from duelrank.core.errors import InvalidValue
from duelrank.evidence.sequential import (
    _MAX_EVIDENCE,
    _PRIORS,
    ALTERNATIVES,
    MAX_MARGIN,
    ConfidenceSequence,
    Detector,
    EValue,
    InOrder,
    anytime_test,
)

BILLION = 10**9
OUTCOMES = st.lists(st.booleans(), max_size=60)
COUNTS = st.integers(0, 400)

Flags = NDArray[np.bool_]


def updated(value: Any, won: Sequence[bool]) -> Any:
    for each in won:
        value = value.update(each)
    return value


def likelihood_ratio(alternative: float, margin: float, won: bool) -> float:
    """The ratio of an alternative, scaled down for the margin, against ½ − margin."""
    p, p0 = alternative * (1.0 - 2.0 * margin), 0.5 - margin
    return p / p0 if won else (1.0 - p) / (1.0 - p0)


def exact_evidence(alternative: float, margin: float, won: Sequence[bool]) -> float:
    """The evidence for one alternative by its definition: the sum, over all starts of harm, of the product of ratios since."""
    ratios = [likelihood_ratio(alternative, margin, each) for each in won]
    return math.fsum(math.prod(ratios[start:]) for start in range(len(ratios)))


def published_half_width(n: float, level: float, rho: float = 100.0) -> float:
    v = n / 4
    return math.sqrt((v + rho) * math.log((v + rho) / (rho * level**2))) / n


def exact_e_value(wins: int, losses: int) -> Fraction:
    """Σ C(n+1, j) / ((n + 1) C(n, wins)) over j from 0 to wins."""
    n = wins + losses
    return Fraction(sum(math.comb(n + 1, j) for j in range(wins + 1)), (n + 1) * math.comb(n, wins))


def exact_anytime(wins: int, losses: int) -> Fraction:
    """1 / e, where each Beta(a, a) mixture predicts one outcome after the other with chance (wins so far + a) / (n + 2 a)."""
    ratios = []
    for a in _PRIORS:
        ratio, counts = Fraction(1), [Fraction(a), Fraction(a)]
        for side in [0] * wins + [1] * losses:
            ratio *= 2 * counts[side] / sum(counts)
            counts[side] += 1
        ratios.append(ratio)
    return min(Fraction(1), len(_PRIORS) / sum(ratios))


class TestDetector:
    @examples(100)
    @given(OUTCOMES, st.sampled_from([0.0, 0.05, MAX_MARGIN]))
    def test_it_sums_over_all_starts_of_harm(self, won: list[bool], margin: float) -> None:
        detector = updated(Detector(margin=margin), won)
        expected = [exact_evidence(each, margin, won) for each in ALTERNATIVES]
        np.testing.assert_allclose(detector.evidence, expected, rtol=1e-10)
        assert detector.statistic == pytest.approx(np.mean(expected))

    def test_evidence_rises_with_losses_to_a_bound_and_falls_with_wins(self) -> None:
        """20,000 losses would be 10^2,922 for the lowest alternative."""
        high = updated(Detector(1e15), [False] * 20_000)
        assert high.evidence == (_MAX_EVIDENCE,) * len(ALTERNATIVES)
        assert high.alarm
        assert high.update(True).alarm  # the bound is far above any threshold
        low = updated(high, [True] * 20_000)
        assert not low.alarm
        # With wins only, M converges to the solution of M = (M + 1) L.
        wins = np.array([likelihood_ratio(p, 0.0, True) for p in ALTERNATIVES])
        np.testing.assert_allclose(low.evidence, wins / (1.0 - wins))

    def test_the_alarm_is_raised_at_the_threshold(self) -> None:
        assert Detector(100.0, evidence=(100.0,) * 5).alarm
        assert not Detector(100.0, evidence=(100.0,) * 4 + (99.0,)).alarm

    def test_a_margin_needs_more_losses(self) -> None:
        losses = np.zeros((1, 1000), bool)
        assert lists_until_alarm(1e6, 0.0, losses)[0] < lists_until_alarm(1e6, 0.1, losses)[0] <= 1000

    def test_reset_removes_the_evidence(self) -> None:
        assert updated(Detector(50.0, 0.1), [False] * 9).reset() == Detector(50.0, 0.1)

    @pytest.mark.parametrize(
        ("field", "values", "message"),
        [
            ("false_alarm_every", [0.0, 0.99, -1.0, 1.1e15, math.inf, math.nan], r"from 1 to 10\^15"),
            ("margin", [-0.01, 0.26, math.nan], "margin must be from 0 to 0.25"),
            ("evidence", [(), (1.0,) * 4, (1.0,) * 4 + (-1.0,), (1.0,) * 4 + (math.nan,), (math.inf,) * 5], "5 finite"),
        ],
    )
    def test_other_values_are_refused(self, field: str, values: list[Any], message: str) -> None:
        for value in values:
            with pytest.raises(InvalidValue, match=message):
                Detector(**{field: value})


class TestConfidenceSequence:
    @examples(100)
    @given(COUNTS, COUNTS, st.floats(1e-6, 0.999))
    def test_it_is_the_published_formula(self, wins: int, losses: int, level: float) -> None:
        sequence = ConfidenceSequence(wins, losses, level)
        low, high = sequence.interval
        if not wins + losses:
            assert (sequence.rate, low, high) == (0.5, 0.0, 1.0)
            return
        rate = wins / (wins + losses)
        half = published_half_width(wins + losses, level)
        assert sequence.rate == rate
        assert sequence.half_width == pytest.approx(half)
        assert (low, high) == pytest.approx((max(rate - half, 0), min(rate + half, 1)))

    def test_after_a_billion_lists(self) -> None:
        low, high = ConfidenceSequence(BILLION // 2, BILLION // 2).interval
        assert 0.4999 < low < 0.5 < high < 0.5001
        assert high - low == pytest.approx(2 * published_half_width(BILLION, 0.05))
        assert ConfidenceSequence(BILLION, 0).update(True).interval[1] == 1.0
        assert ConfidenceSequence(0, BILLION).update(False).interval[0] == 0.0

    def test_a_tiny_level_does_not_vanish_when_it_is_squared(self) -> None:
        assert 0.0 < ConfidenceSequence(50_000, 50_000, 1e-300).half_width < 0.2

    @pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
    def test_other_levels_are_refused(self, level: float) -> None:
        for refuse in (lambda: ConfidenceSequence(level=level), lambda: EValue(9, 1).proves(level)):
            with pytest.raises(InvalidValue, match="between 0 and 1"):
                refuse()


class TestEValue:
    @examples(150)
    @given(COUNTS, COUNTS)
    def test_it_is_the_exact_sum(self, wins: int, losses: int) -> None:
        exact, value = exact_e_value(wins, losses), EValue(wins, losses)
        assert value.log == pytest.approx(math.log(exact.numerator) - math.log(exact.denominator), rel=1e-9, abs=1e-10)
        assert value.value == pytest.approx(float(min(exact, 10**299)), rel=1e-9)

    @examples(100)
    @given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.2, 0.05, 0.01, 1e-4]))
    def test_it_proves_gain_from_one_over_the_level(self, wins: int, losses: int, level: float) -> None:
        exact = float(exact_e_value(wins, losses))
        if abs(exact * level - 1.0) > 1e-9:  # nearer, rounding may decide
            assert EValue(wins, losses).proves(level) == (exact >= 1 / level)

    @pytest.mark.parametrize("lead", [-BILLION, -(10**6), -1000, -2, 0, 2, 1000, 10**6, BILLION])
    def test_after_a_billion_lists(self, lead: int) -> None:
        """By the normal approximation, e = sqrt(2π/n) exp(lead²/2n) Φ(lead/√n), if the lead is not too large for it."""
        wins, losses = (BILLION + lead) // 2, (BILLION - lead) // 2
        value = EValue(wins, losses)
        assert math.isfinite(value.log)
        assert 0.0 < value.value <= 1.1e300
        assert value.proves(1e-9) == (lead > 10**5)
        if abs(lead) <= 1000:
            below = 0.5 * math.erfc(-lead / math.sqrt(2 * BILLION))
            expected = math.sqrt(2 * math.pi / BILLION) * math.exp(lead**2 / (2 * BILLION)) * below
            assert value.value == pytest.approx(expected, rel=1e-3)

    def test_more_wins_are_more_evidence_also_at_the_change_of_formula(self) -> None:
        for n in (10, 101, 10**6):
            logs = [EValue(wins, n - wins).log for wins in range(n // 2 - 3, n // 2 + 4)]
            assert all(a < b for a, b in pairwise(logs))


class TestAnytime:
    @given(st.integers(0, 60), st.integers(0, 60))
    def test_it_is_the_inverse_of_predictions_against_a_coin(self, wins: int, losses: int) -> None:
        assert anytime_test(wins, losses) == pytest.approx(float(exact_anytime(wins, losses)), rel=1e-9)
        assert anytime_test(wins, losses) == anytime_test(losses, wins)

    def test_its_first_mixture_is_the_mean_of_both_directions_of_the_e_value(self) -> None:
        for wins, losses in ((30, 3), (3, 30)):
            both = np.logaddexp(EValue(wins, losses).log, EValue(losses, wins).log) - np.log(2)
            assert anytime_test(wins, losses) <= len(_PRIORS) * math.exp(-both)

    @pytest.mark.parametrize("lead", [0, 10**4, 10**6, 10**9])
    def test_after_a_billion_lists(self, lead: int) -> None:
        p = anytime_test((10**9 + lead) // 2, (10**9 - lead) // 2)
        assert 0.0 <= p <= 1.0
        assert (p < 1e-6) == (lead > 10**5)


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
class TestValues:
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

    def test_it_is_immutable(self, value: Detector | ConfidenceSequence | EValue) -> None:
        with pytest.raises(AttributeError):
            setattr(value, next(iter(value.to_dict())), 1)


@pytest.mark.parametrize("kind", [ConfidenceSequence, EValue])
def test_updates_count_wins_and_losses(kind: type[ConfidenceSequence | EValue]) -> None:
    assert updated(kind(2, 3), [True, True, False]) == kind(4, 4)
    for counts in ((-1, 0), (0, -1)):
        with pytest.raises(InvalidValue, match="0 or more"):
            kind(*counts)


# What the tests guarantee, by simulation. A bound is the guarantee plus four standard errors. That a team draft of equal rankers
# is won with a chance of exactly ½ is shown in test_guard.py; studies/guard_promises.py repeats all of it with drafts.


def drawn(chances: float | NDArray[np.float64], streams: int, lists: int, seed: int = 1) -> Flags:
    """Draw the outcomes of many streams of decisive lists."""
    return np.random.default_rng(seed).random((streams, lists)) < chances


def lists_until_alarm(every: float, margin: float, won: Flags) -> NDArray[np.int64]:
    """Return the number of lists until the alarm of each stream, or one more than there are: `Detector.update` for all at once."""
    found = np.full(len(won), won.shape[1] + 1)
    ratios = np.array([[likelihood_ratio(p, margin, side) for p in ALTERNATIVES] for side in (False, True)])
    running, evidence = np.arange(len(won)), np.zeros((len(won), len(ALTERNATIVES)))
    for number in range(won.shape[1]):
        evidence = np.minimum((evidence + 1.0) * ratios[won[running, number].astype(int)], _MAX_EVIDENCE)
        alarm = evidence.mean(axis=1) >= every
        found[running[alarm]] = number + 1
        running, evidence = running[~alarm], evidence[~alarm]
    return found


def ever_missed(won: Flags, chances: NDArray[np.float64], level: float) -> Flags:
    """Return in which streams the band ever misses the mean chance to win so far."""
    n = np.arange(1, won.shape[1] + 1)
    allowed = n * [ConfidenceSequence(int(each), 0, level).half_width for each in n]
    return (np.abs(np.cumsum(won, axis=1) - np.cumsum(chances, axis=-1)) > allowed).any(axis=1)


def ever_proved(won: Flags, proves: Callable[[int, int], bool]) -> Flags:
    """Return in which streams a proof of gain is ever found; more wins prove more."""
    least, wins = np.empty(won.shape[1]), 0
    for n in range(1, won.shape[1] + 1):
        while wins <= n and not proves(wins, n - wins):
            wins += 1
        least[n - 1] = wins
    return (np.cumsum(won, axis=1) >= least).any(axis=1)


def check_share(found: Flags, level: float) -> None:
    """At most a share of the streams may fail, and some do: otherwise the streams are too short to show anything."""
    assert 0.0 < found.mean() <= level + 4 * np.sqrt(level * (1 - level) / len(found))


class TestMeanRunLength:
    def test_the_vectorised_detector_is_the_detector(self) -> None:
        won = drawn(0.35, 20, 300)
        for stream, lists in zip(won, lists_until_alarm(1000.0, 0.05, won), strict=True):
            assert updated(Detector(1000.0, 0.05), stream[:lists].tolist()).alarm == (lists <= 300)
            assert not updated(Detector(1000.0, 0.05), stream[: lists - 1].tolist()).alarm

    @pytest.mark.parametrize("margin", [0.0, 0.05, 0.2])
    def test_false_alarms_are_rare_at_the_least_chance_to_win_that_is_allowed(self, margin: float) -> None:
        lengths = lists_until_alarm(300.0, margin, drawn(0.5 - margin, 2000, 6000))
        assert (lengths <= 6000).all()
        assert lengths.mean() >= 300 - 4 * lengths.std() / np.sqrt(len(lengths))
        assert lengths.mean() <= 600  # the guarantee is not kept by never raising an alarm

    def test_harm_is_found_within_a_few_hundred_lists(self) -> None:
        lengths = lists_until_alarm(1000.0, 0.0, drawn(0.35, 200, 1000))
        assert lengths.mean() < 150
        assert lengths.max() < 1000


class TestCoverage:
    @pytest.mark.parametrize("level", [0.05, 0.3])
    def test_the_band_holds_a_drifting_chance_at_all_times(self, level: float) -> None:
        drift = np.linspace(0.45, 0.60, 3000)
        check_share(ever_missed(drawn(drift, 1000, 3000), drift, level), level)

    def test_the_band_holds_a_chance_that_depends_on_the_past(self) -> None:
        """A ranker in the lead has a lower chance to win: the band is for the mean of the chances that occurred."""
        draws, lead = np.random.default_rng(1).random((1000, 300)), np.zeros(300)
        chances, won = np.empty((1000, 300)), np.empty((1000, 300), bool)
        for number, draw in enumerate(draws):
            chances[number] = np.where(lead > 0, 0.3, 0.8)
            won[number] = draw < chances[number]
            lead += np.where(won[number], 1, -1)
        assert ever_missed(won.T, chances.T, 0.3).mean() <= 0.3 + 4 * np.sqrt(0.3 * 0.7 / 300)


class TestLevel:
    @pytest.mark.parametrize("level", [0.05, 0.2])
    def test_gain_is_rarely_proved_for_equal_rankers(self, level: float) -> None:
        check_share(ever_proved(drawn(0.5, 2000, 2000), lambda w, n: EValue(w, n).proves(level)), level)

    @pytest.mark.parametrize("level", [0.05, 0.2])
    def test_equal_rankers_are_rarely_told_apart_by_the_anytime_test(self, level: float) -> None:
        def proves(wins: int, losses: int) -> bool:
            return wins > losses and anytime_test(wins, losses) <= level

        won = drawn(0.5, 2000, 2000)
        check_share(ever_proved(won, proves) | ever_proved(~won, proves), level)

    def test_a_gain_is_proved(self) -> None:
        assert ever_proved(drawn(0.6, 200, 1000), lambda w, n: EValue(w, n).proves(0.05)).mean() > 0.99


class TestInOrder:
    @given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=12), st.randoms(use_true_random=False))
    def test_outcomes_are_those_of_the_longest_run_of_closed_lists(self, lists: Any, random: Any) -> None:
        """Whatever the order of closing: after each step, exactly those lists are out before which none is open."""
        order, gone, found = InOrder[int, int](), set[int](), list[int]()
        waiting = sorted(range(len(lists)), key=lambda number: (lists[number][0], random.random()))
        for number in range(len(lists)):
            order.show(number)
        for number in waiting:
            gone.add(number)
            then = list(order.waiting_for(number))
            if lists[number][1]:
                order.close(number, number)
            else:
                order.drop(number)
            now = list(order.ready())
            assert then == [each for each in now if each != number]
            found += now
            end = next((each for each in range(len(lists)) if each not in gone), len(lists))
            assert found == [each for each in range(end) if lists[each][1]]
            assert order.waiting == sum(each >= end and lists[each][1] for each in gone)
            assert order.first == (None if end == len(lists) else end)
            assert InOrder(order.lists).lists == order.lists
            assert InOrder(order.lists).waiting == order.waiting
        assert len(order) == 0

    def test_a_list_that_was_not_added_waits_for_none(self) -> None:
        order = InOrder({1: None, 2: "win"})
        order.close(0, "loss")
        assert list(order.ready()) == ["loss"]
        assert (order.lists, order.waiting, 0 in order) == ({1: None, 2: "win"}, 1, False)

    def test_an_outcome_whose_use_fails_is_not_lost(self) -> None:
        order = InOrder({1: "win", 2: "loss"})
        assert next(order.ready()) == "win"  # and no more: the loop was left
        assert (list(order.ready()), order.waiting) == (["win", "loss"], 0)

    def test_a_list_that_is_closed_twice_counts_once(self) -> None:
        order = InOrder({1: None, 2: None})
        order.close(2, "win")
        order.close(2, "win")
        assert order.waiting == 1
        order.drop(1)
        assert (list(order.ready()), order.waiting) == (["win"], 0)

    def test_false_outcomes_are_outcomes(self) -> None:
        order = InOrder({1: None, 2: None})
        order.close(1, 0)
        assert list(order.ready()) == [0]
