"""A guard: what follows from its lists, in which order, and what an alarm, a promotion, a resume and other settings change."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from duelrank.core.errors import InvalidValue
from duelrank.guard import ConfidenceSequence, Detector, EValue, Guard, GuardCounts, GuardSpec
from duelrank.guard.guard import LEVEL, SLACK

SPEC = GuardSpec(false_alarm_every=1000.0, promote=(0.1, 0.5, 1.0))
NOTHING = (ConfidenceSequence(level=LEVEL), ConfidenceSequence(level=LEVEL), EValue())


def counted(guard: Guard, **outcomes: int) -> Guard:
    for outcome, times in outcomes.items():
        for _ in range(times):
            guard = guard.count(outcome)
    return guard


def until_due(guard: Guard, outcome: str) -> Guard:
    for _ in range(5000):
        if guard.due is not None:
            return guard
        guard = guard.count(outcome)
    raise AssertionError("nothing followed")


def begun(**settings: Any) -> Guard:
    return Guard.begin(msgspec.structs.replace(SPEC, **settings))


def votes(guard: Guard) -> tuple[Any, ...]:
    return guard.period, guard.on_rung, guard.proof


@pytest.fixture
def top() -> Guard:
    """At the top of its ladder, after two promotions."""
    guard = begun()
    for _ in range(2):
        guard = until_due(guard, "win").promoted()
    return guard


class TestCounting:
    def test_only_wins_and_losses_are_evidence(self) -> None:
        guard = counted(begun(), win=3, loss=2)
        more = counted(guard, tie=4, no_click=5, repeated=6)
        assert more.counts == GuardCounts(3, 2, 4, 5, 6)
        assert more.counts.lists == 20
        assert (more.detector, votes(more), more.due) == (guard.detector, votes(guard), guard.due)

    def test_lists_of_nobody_are_ignored_where_that_is_asked_for(self) -> None:
        guard = counted(begun(anonymous="ignore"), win=3)
        more = guard
        for outcome in ("win", "loss", "tie", "no_click"):
            more = more.count(outcome, anonymous=True)
        assert more.counts == GuardCounts(3, 0, 1, 1, 0, 2)
        assert (more.detector, votes(more), more.due) == (guard.detector, votes(guard), guard.due)
        assert more.anonymous == pytest.approx(2 / 5)
        assert more.changed(SPEC).count("win", anonymous=True).counts.wins == 4

    def test_the_share_of_lists_of_nobody_is_that_of_late(self) -> None:
        guard = begun()
        for number in range(300):
            guard = guard.count("win" if number % 2 else "loss", anonymous=number < 100)
        assert guard.anonymous < 0.2

    def test_all_of_its_values_see_the_same_lists(self) -> None:
        guard = counted(begun(), win=3, loss=2)
        detector = Detector(1000.0)
        for won in (True, True, True, False, False):
            detector = detector.update(won)
        assert guard.detector == detector
        assert guard.period == guard.on_rung == ConfidenceSequence(3, 2, LEVEL)
        assert guard.proof == guard.gain == EValue(3, 2)

    def test_proof_begins_anew_once_it_was_used_and_gain_goes_on(self) -> None:
        guard = counted(begun(), win=9)
        assert guard.has_fresh_proof
        guard = guard.proved()
        assert not guard.has_fresh_proof
        assert guard.gain == EValue(9, 0)
        assert counted(guard, win=9).has_fresh_proof

    @examples(30)
    @given(st.lists(st.sampled_from(["win", "loss", "tie", "no_click", "repeated"]), max_size=60))
    def test_a_stored_one_goes_on_as_if_nothing_had_happened(self, outcomes: list[Any]) -> None:
        guard = begun(false_alarm_every=5.0)
        for outcome in outcomes:
            guard = guard.count(outcome)
            if guard.due == "alarm":
                guard = guard.alarmed(12.5, 7)
            elif guard.due == "promote":
                guard = guard.promoted()
        restored = Guard.from_dict(json.loads(json.dumps(guard.to_dict())))
        assert restored == guard
        assert counted(restored, loss=2, win=1) == counted(guard, loss=2, win=1)

    def test_a_damaged_one_is_refused(self) -> None:
        plain = begun().to_dict()
        for change in ({"rung": "high"}, {"due": "lunch"}, {"detector": None}, {"counts": {"wins": "many"}}, {"x": 1}):
            with pytest.raises(InvalidValue, match="not a stored Guard"):
                Guard.from_dict({**plain, **change})


class TestAlarm:
    def test_it_is_due_as_soon_as_the_detector_says_so_and_until_it_is_applied(self) -> None:
        guard = until_due(begun(), "loss")
        assert guard.due == "alarm"
        assert guard.detector.alarm
        before = counted(begun(), loss=guard.counts.losses - 1)
        assert (before.due, before.detector.alarm) == (None, False)
        recovered = counted(guard, win=40)
        assert not recovered.detector.alarm
        assert recovered.due == "alarm"
        assert recovered.alarmed(1.0, 2).due is None

    def test_it_is_noted_with_what_was_known(self) -> None:
        guard = until_due(counted(begun(), win=2), "loss")
        alarm = guard.alarmed(time=9.5, version=3).last_alarm
        assert alarm is not None
        assert (alarm.time, alarm.version, alarm.did, alarm.to_version) == (9.5, 3, "baseline", None)
        assert (alarm.statistic, alarm.wins, alarm.losses) == (guard.detector.statistic, 2, guard.counts.losses)

    def test_baseline_steps_back_and_watches_on(self, top: Guard) -> None:
        guard = until_due(top, "loss").alarmed(1.0, 2)
        assert (guard.stepped_back, guard.raised, guard.learned_share, guard.rung) == (True, True, 0.0, 0)
        assert votes(guard) == NOTHING
        assert guard.detector.alarm  # still seen, until somebody resumes
        after = counted(guard, win=30, loss=10)
        assert after.period == ConfidenceSequence(30, 10, LEVEL)
        assert after.counts.wins == guard.counts.wins + 30
        assert after.stepped_back

    def test_while_it_stands_nothing_else_follows(self, top: Guard) -> None:
        guard = until_due(top, "loss").alarmed(1.0, 2)
        worse, better = counted(guard, loss=100), counted(guard, win=3000)
        assert worse.due is None
        assert better.due is None
        assert better.on_rung.interval[0] > 0.5 - SLACK  # which would be a promotion
        assert (worse.alarms, better.rung) == (1, 0)

    def test_tell_only_says_so(self) -> None:
        guard = until_due(begun(on_alarm="tell"), "win").promoted()
        before = until_due(guard, "loss")
        after = before.alarmed(1.0, 2)
        assert (after.raised, after.stepped_back, after.learned_share, after.rung) == (True, False, 0.5, 1)
        assert (votes(after), after.detector) == (votes(before), before.detector)
        assert (after.alarms, after.last_alarm and after.last_alarm.did) == (1, "tell")
        assert counted(after, loss=50).due is None
        assert counted(after, win=5000).due is None

    def test_rollback_goes_to_a_version_that_had_proved_gain_and_watches_anew(self, top: Guard) -> None:
        top = top.changed(msgspec.structs.replace(SPEC, on_alarm="rollback"))
        guard = until_due(top, "loss").alarmed(1.0, 9, to_version=4)
        assert guard.last_alarm is not None
        assert (guard.last_alarm.did, guard.last_alarm.to_version) == ("rollback", 4)
        assert (guard.raised, guard.stepped_back, guard.rung, guard.learned_share) == (False, False, 0, 0.1)
        assert (guard.detector, votes(guard)) == (Detector(1000.0), NOTHING)
        again = until_due(guard, "loss").alarmed(2.0, 10, to_version=4)
        assert again.alarms == 2

    def test_rollback_without_such_a_version_is_baseline(self) -> None:
        guard = until_due(begun(on_alarm="rollback"), "loss").alarmed(1.0, 9)
        assert guard.last_alarm is not None
        assert (guard.last_alarm.did, guard.last_alarm.to_version, guard.stepped_back) == ("baseline", None, True)

    def test_a_proven_version_says_nothing_to_others_than_rollback(self) -> None:
        guard = until_due(begun(), "loss").alarmed(1.0, 9, to_version=4)
        assert guard.last_alarm is not None
        assert (guard.last_alarm.did, guard.last_alarm.to_version) == ("baseline", None)


class TestPromotion:
    def test_it_is_due_when_the_band_of_the_rung_is_above_one_half_less_a_little(self) -> None:
        guard = until_due(begun(), "win")
        assert guard.due == "promote"
        assert guard.on_rung.interval[0] > 0.5 - SLACK
        assert counted(begun(), win=guard.counts.wins - 1).on_rung.interval[0] <= 0.5 - SLACK

    def test_it_is_due_until_it_is_applied(self) -> None:
        guard = counted(until_due(begun(false_alarm_every=1e9), "win"), loss=10)
        assert guard.on_rung.interval[0] < 0.5 - SLACK
        assert guard.due == "promote"

    def test_each_rung_begins_with_no_lists_of_its_own(self) -> None:
        before = until_due(begun(), "win")
        guard = before.promoted()
        assert (guard.rung, guard.learned_share, guard.promotions, guard.due) == (1, 0.5, 1, None)
        assert guard.on_rung == ConfidenceSequence(level=LEVEL)
        assert (guard.period, guard.proof, guard.detector) == (before.period, before.proof, before.detector)

    def test_there_is_none_beyond_the_top(self, top: Guard) -> None:
        assert (top.rung, top.learned_share, top.promotions) == (2, 1.0, 2)
        after = counted(top, win=2000)
        assert after.due is None
        assert after.promoted().rung == 2

    def test_one_rung_is_no_ladder(self) -> None:
        guard = counted(begun(promote=(1.0,)), win=2000)
        assert (guard.due, guard.learned_share) == (None, 1.0)

    def test_an_alarm_comes_first(self) -> None:
        """With a promotion that waits to be written down, harm is seen."""
        guard = counted(until_due(begun(), "win"), loss=200)
        assert guard.due == "alarm"
        assert guard.alarmed(1.0, 2).rung == 0


class TestResume:
    @pytest.mark.parametrize("on_alarm", ["baseline", "tell"])
    def test_it_watches_anew_from_the_first_rung(self, on_alarm: str) -> None:
        guard = until_due(begun(on_alarm=on_alarm), "win").promoted()
        alarmed = counted(until_due(guard, "loss").alarmed(1.0, 2), loss=5, tie=1)
        after = alarmed.resumed()
        assert (after.raised, after.stepped_back, after.rung, after.learned_share) == (False, False, 0, 0.1)
        assert (after.detector, votes(after)) == (Detector(1000.0), NOTHING)
        assert (after.counts, after.alarms, after.last_alarm) == (alarmed.counts, 1, alarmed.last_alarm)
        assert until_due(after, "loss").due == "alarm"

    def test_it_ends_an_alarm_that_is_only_due(self) -> None:
        after = until_due(begun(), "loss").resumed()
        assert (after.due, after.detector, after.alarms) == (None, Detector(1000.0), 0)

    def test_without_an_alarm_nothing_happens(self) -> None:
        for guard in (counted(begun(), win=5, loss=3), until_due(begun(), "win")):
            assert guard.resumed() == guard


class TestOtherSettings:
    @pytest.mark.parametrize("change", [{"false_alarm_every": 50.0}, {"margin": 0.1}, {"promote": (0.2, 1.0)}], ids=str)
    def test_what_promises_something_else_begins_anew(self, top: Guard, change: dict[str, Any]) -> None:
        spec = msgspec.structs.replace(SPEC, **change)
        after = counted(top, loss=3).changed(spec)
        assert (after.spec, after.detector) == (spec, Detector(spec.false_alarm_every, spec.margin))
        assert (votes(after), after.rung, after.due) == (NOTHING, 0, None)
        assert (after.counts, after.promotions) == (counted(top, loss=3).counts, 2)

    @pytest.mark.parametrize(
        "change", [{"share": 0.5}, {"on_alarm": "tell"}, {"webhook": "https://a.example/b"}], ids=str
    )
    def test_the_rest_changes_nothing_else(self, top: Guard, change: dict[str, Any]) -> None:
        spec = msgspec.structs.replace(SPEC, **change)
        for guard in (counted(top, loss=3), until_due(top, "loss")):
            after = guard.changed(spec)
            assert after.spec == spec
            assert after.changed(SPEC) == guard

    @pytest.mark.parametrize("change", [{"margin": 0.1}, {"share": 0.5}, {"on_alarm": "tell"}], ids=str)
    def test_an_alarm_stands(self, change: dict[str, Any]) -> None:
        guard = until_due(begun(), "loss").alarmed(1.0, 2)
        after = guard.changed(msgspec.structs.replace(SPEC, **change))
        assert (after.raised, after.stepped_back, after.learned_share) == (True, True, 0.0)
        assert (after.alarms, after.last_alarm) == (1, guard.last_alarm)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"share": 0.0}, "share"),
            ({"share": 1.01}, "share"),
            ({"share": float("nan")}, "share"),
            ({"false_alarm_every": 0.0}, "false_alarm_every"),
            ({"margin": 0.3}, "margin"),
            ({"promote": ()}, "promote"),
            ({"promote": (0.0, 1.0)}, "promote"),
            ({"promote": (0.5, 0.5)}, "promote"),
            ({"promote": (0.5, 0.1)}, "promote"),
            ({"promote": (0.5, 1.1)}, "promote"),
            ({"webhook": "ftp://a.example"}, "webhook"),
            ({"webhook": "https://"}, "webhook"),
            ({"webhook": "http://a.example:99999"}, "webhook"),
            ({"webhook": "http://a.example/a b"}, "webhook"),
            ({"webhook": "http://a.example/" + "a" * 2000}, "webhook"),
        ],
        ids=str,
    )
    def test_bad_ones_are_refused(self, change: dict[str, Any], said: str) -> None:
        spec = msgspec.structs.replace(SPEC, **change)
        for refuse in (Guard.begin, begun().changed):
            with pytest.raises(InvalidValue, match=f"guard: .*{said}"):
                refuse(spec)


@dataclass
class Book:
    """A slow twin of a guard: it keeps every vote, and looks at all of them each time."""

    every: float
    rungs: int
    votes: list[bool] = field(default_factory=list)
    rung: int = 0
    since: int = 0

    def vote(self, won: bool) -> str | None:
        self.votes.append(won)
        detector = Detector(self.every)
        for each in self.votes:
            detector = detector.update(each)
        if detector.alarm:
            return "alarm"
        own = self.votes[self.since :]
        low = ConfidenceSequence(sum(own), len(own) - sum(own), LEVEL).interval[0]
        return "promote" if self.rung + 1 < self.rungs and low > 0.5 - SLACK else None


@examples(20)
@given(st.randoms(use_true_random=False), st.sampled_from([0.2, 0.5, 0.95]))
def test_it_does_what_one_who_keeps_every_vote_would_do(random: Any, rate: float) -> None:
    guard, book = begun(), Book(SPEC.false_alarm_every, len(SPEC.promote))
    for _ in range(150):
        won = random.random() < rate
        guard, expected = guard.count("win" if won else "loss"), book.vote(won)
        assert guard.due == expected
        if expected == "alarm":
            break
        if expected == "promote":
            guard, book.rung, book.since = guard.promoted(), book.rung + 1, len(book.votes)
    assert guard.rung == book.rung
