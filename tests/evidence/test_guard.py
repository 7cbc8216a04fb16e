"""The guard: fair guard lists, one vote per user and day, and the effects of alarms, promotions, resumes and new settings."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.effort import examples

from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream
from duelrank.evidence.guard import (
    BASELINE,
    LEARNED,
    LEVEL,
    MAX_VOTERS,
    SLACK,
    Guard,
    GuardCounts,
    GuardSpec,
    Voters,
    draw_kind,
    guard_list,
    outcome_of,
)
from duelrank.evidence.sequential import ConfidenceSequence, Detector, EValue
from duelrank.kernels.multileaving import team_draft_credit as credit
from duelrank.kernels.random import permutation

BASE = np.arange(6)
OTHERS = [[0, 1, 5, 4, 3, 2], [5, 4, 3, 2, 1, 0], [1, 0, 2, 3, 4, 5], [3, 1, 0, 5, 2, 4]]
DAY = 86_400.0
SPEC = GuardSpec(false_alarm_every=1000.0, promote=(0.1, 0.5, 1.0))
NOTHING = (ConfidenceSequence(level=LEVEL), ConfidenceSequence(level=LEVEL), EValue())


def drafts(baseline: list[int], learned: list[int], length: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return all drafts, equally likely: a coin decides who is first in each round; the common top belongs to nobody."""
    common = next((i for i in range(length) if baseline[i] != learned[i]), length)
    found = []
    for coins in product([0, 1], repeat=(length - common + 1) // 2):
        ranking, teams = list(baseline[:common]), [-1] * common
        for team in [each for coin in coins for each in (coin, 1 - coin)][: length - common]:
            ranking.append(next(each for each in (baseline, learned)[team] if each not in ranking))
            teams.append(team)
        found.append((tuple(ranking), tuple(teams)))
    return found


class TestLists:
    @pytest.mark.parametrize(("share", "learned"), [(0.1, 0.5), (0.3, 0.1), (0.05, 1.0), (0.2, 0.0), (1.0, 0.5)])
    def test_kinds_have_their_shares(self, share: float, learned: float) -> None:
        n = 5000
        found = Counter(draw_kind(stream(1, "kind", number), share, learned) for number in range(n))
        expected = {"guard": share, "learned": (1 - share) * learned, "baseline": (1 - share) * (1 - learned)}
        for kind, chance in expected.items():
            assert abs(found[kind] - n * chance) <= 4.5 * np.sqrt(n * chance * (1 - chance)), kind

    @pytest.mark.parametrize("learned", OTHERS, ids=str)
    @pytest.mark.parametrize("length", [3, 4, 6])
    def test_all_drafts_are_equally_likely(self, learned: list[int], length: int) -> None:
        possible = Counter(drafts(BASE.tolist(), learned, length))
        found: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
        for number in range(800):
            ranking, teams = guard_list(BASE, np.array(learned), length, stream(3, "draft", number))
            found[tuple(ranking.tolist()), tuple(teams.tolist())] += 1
        assert set(found) == set(possible)
        if len(possible) > 1:
            expected = [800 * n / possible.total() for n in possible.values()]
            assert stats.chisquare([found[key] for key in possible], expected).pvalue > 1e-5

    @pytest.mark.parametrize("learned", OTHERS, ids=str)
    @pytest.mark.parametrize("length", [1, 3, 4, 6])
    def test_wins_and_losses_are_equally_likely_for_any_clicked_positions(
        self, learned: list[int], length: int
    ) -> None:
        for clicks in product([False, True], repeat=length):
            found = Counter(
                outcome_of(np.array(teams), np.array(clicks)) for _, teams in drafts(BASE.tolist(), learned, length)
            )
            assert found["win"] == found["loss"]

    def test_a_better_ranker_wins(self) -> None:
        """Only document 5 is clicked; the learned ranker has it first, the baseline last."""
        for ranking, teams in drafts(list(BASE), OTHERS[1], 4):
            assert outcome_of(np.array(teams), np.array(ranking) == 5) == "win"

    def test_equal_rankings_tie(self) -> None:
        ranking, teams = guard_list(BASE, BASE, 4, stream(1, "draft"))
        assert ranking.tolist() == [0, 1, 2, 3]
        assert outcome_of(teams, np.ones(4, bool)) == "tie"

    def test_a_list_has_at_most_all_documents(self) -> None:
        ranking, teams = guard_list(BASE, BASE[::-1], 100, stream(1, "draft"))
        assert sorted(ranking) == BASE.tolist()
        assert sorted(teams) == [BASELINE] * 3 + [LEARNED] * 3

    @pytest.mark.parametrize(
        ("teams", "gains", "outcome"),
        [
            ([0, 1, 1, 0], [0, 0, 0, 0], "no_click"),
            ([0, 1, 1, 0], [1, 0, 0, 0], "loss"),
            ([0, 1, 1, 0], [0, 1, 0, 0], "win"),
            ([0, 1, 1, 0], [1, 1, 0, 0], "tie"),
            ([0, 1, 1, 0], [1, 1, 1, 0], "win"),
            ([-1, -1, 1, 0], [1, 1, 0, 0], "tie"),
            ([-1, -1, 1, 0], [1, 1, 0, 1], "loss"),
            ([-1, 0, 1, 1], [0.0, 10.0, 1.0, 1.0], "loss"),
            ([-1, 0, 1, 1], [0.0, 1.0, 10.0, 0.0], "win"),
            ([-1, 0, 1, 1], [9.0, 0.3, 0.1, 0.2], "tie"),  # 0.1 + 0.2 is not 0.3 in floats
        ],
    )
    def test_the_team_with_the_larger_gain_wins(self, teams: list[int], gains: list[float], outcome: str) -> None:
        assert outcome_of(np.array(teams), np.array(gains)) == outcome
        if set(gains) <= {0, 1}:
            assert outcome_of(np.array(teams), np.array(gains, bool)) == outcome

    def test_the_outcome_is_the_sign_of_the_credit_of_a_team_draft(self) -> None:
        for number in range(200):
            draws = stream(5, "outcome", number)
            _, teams = guard_list(BASE, permutation(draws, 6), 5, draws)
            clicks = permutation(draws, 5) < 2
            baseline, learned = credit(teams, clicks, 2)
            expected = "win" if learned > baseline else "loss" if learned < baseline else "tie"
            assert outcome_of(teams, clicks) == expected


def user(number: int) -> bytes:
    return number.to_bytes(8, "big")


class TestVoters:
    def test_a_user_has_one_vote_per_day(self) -> None:
        voters = Voters()
        assert voters.admit(user(1), 10 * DAY)
        assert not voters.admit(user(1), 10 * DAY + 1)
        assert voters.admit(user(2), 11 * DAY - 1)
        assert not voters.admit(user(1), 11 * DAY - 1)
        assert voters.admit(user(1), 11 * DAY)
        assert (voters.day, len(voters)) == (11, 1)

    def test_a_late_vote_counts_on_the_present_day(self) -> None:
        """Otherwise an old time would allow a second vote."""
        voters = Voters()
        assert voters.admit(user(1), 10 * DAY)
        assert not voters.admit(user(1), 9 * DAY)
        assert voters.admit(user(2), 9 * DAY)
        assert (voters.day, len(voters)) == (10, 2)

    def test_memory_is_bounded_and_the_earliest_are_forgotten(self) -> None:
        voters = Voters()
        for number in range(MAX_VOTERS + 10):
            assert voters.admit(user(number), 3 * DAY)
        assert len(voters) == MAX_VOTERS
        assert len(voters.hashes) == 8 * MAX_VOTERS
        restored = Voters(voters.day, voters.hashes)
        asked = [(user(number), 3 * DAY) for number in (10, 9, 10, 5, 0, 1, 0)] + [(user(7), 4 * DAY)]
        answers = [voters.admit(*each) for each in asked]
        assert answers[:3] == [False, True, True]
        assert [restored.admit(*each) for each in asked] == answers
        assert (restored.day, restored.hashes) == (voters.day, voters.hashes)

    def test_damaged_hashes_are_refused(self) -> None:
        with pytest.raises(InvalidValue, match="8 bytes each"):
            Voters(1, b"1234567")


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
    raise AssertionError("no action became due")


def begun(**settings: Any) -> Guard:
    return Guard.begin(msgspec.structs.replace(SPEC, **settings))


def votes(guard: Guard) -> tuple[Any, ...]:
    return guard.period, guard.on_rung, guard.proof


@pytest.fixture
def top() -> Guard:
    """A guard on the top rung, after two promotions."""
    guard = begun()
    for _ in range(2):
        guard = until_due(guard, "win").promoted()
    return guard


class TestCounting:
    def test_only_wins_and_losses_are_evidence(self) -> None:
        guard = counted(begun(), win=3, loss=2)
        detector = Detector(1000.0)
        for won in (True, True, True, False, False):
            detector = detector.update(won)
        assert guard.detector == detector
        assert guard.period == guard.on_rung == ConfidenceSequence(3, 2, LEVEL)
        assert guard.proof == guard.gain == EValue(3, 2)
        more = counted(guard, tie=4, no_click=5, repeated=6)
        assert more.counts == GuardCounts(3, 2, 4, 5, 6)
        assert more.counts.lists == 20
        assert (more.detector, votes(more), more.due) == (guard.detector, votes(guard), guard.due)

    def test_lists_without_a_user_are_ignored_on_request(self) -> None:
        guard = counted(begun(anonymous="ignore"), win=3)
        more = guard
        for outcome in ("win", "loss", "tie", "no_click"):
            more = more.count(outcome, anonymous=True)
        assert more.counts == GuardCounts(3, 0, 1, 1, 0, 2)
        assert (more.detector, votes(more), more.due) == (guard.detector, votes(guard), guard.due)
        assert more.anonymous == pytest.approx(2 / 5)
        assert more.changed(SPEC).count("win", anonymous=True).counts.wins == 4

    def test_the_share_of_lists_without_a_user_is_recent(self) -> None:
        guard = begun()
        for number in range(300):
            guard = guard.count("win" if number % 2 else "loss", anonymous=number < 100)
        assert guard.anonymous < 0.2

    def test_a_proof_is_used_once_and_gain_goes_on(self) -> None:
        guard = counted(begun(), win=9)
        assert guard.has_fresh_proof
        guard = guard.proved()
        assert not guard.has_fresh_proof
        assert guard.gain == EValue(9, 0)
        assert counted(guard, win=9).has_fresh_proof

    @examples(30)
    @given(st.lists(st.sampled_from(["win", "loss", "tie", "no_click", "repeated"]), max_size=60))
    def test_a_stored_guard_continues_identically(self, outcomes: list[Any]) -> None:
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

    def test_a_damaged_guard_is_refused(self) -> None:
        plain = begun().to_dict()
        for change in ({"rung": "high"}, {"due": "lunch"}, {"detector": None}, {"counts": {"wins": "many"}}, {"x": 1}):
            with pytest.raises(InvalidValue, match="not a stored Guard"):
                Guard.from_dict({**plain, **change})


class TestAlarm:
    def test_it_is_due_from_the_threshold_until_it_is_applied(self) -> None:
        guard = until_due(begun(), "loss")
        assert guard.due == "alarm"
        assert guard.detector.alarm
        before = counted(begun(), loss=guard.counts.losses - 1)
        assert (before.due, before.detector.alarm) == (None, False)
        with pytest.raises(InvalidValue, match="no alarm is due"):
            before.alarmed(1.0, 2)
        recovered = counted(guard, win=40)
        assert not recovered.detector.alarm
        assert recovered.due == "alarm"
        assert recovered.alarmed(1.0, 2).due is None

    def test_it_has_its_evidence(self) -> None:
        guard = until_due(counted(begun(), win=2), "loss")
        alarm = guard.alarmed(time=9.5, version=3).last_alarm
        assert alarm is not None
        assert (alarm.time, alarm.version, alarm.did, alarm.to_version) == (9.5, 3, "baseline", None)
        assert (alarm.statistic, alarm.wins, alarm.losses) == (guard.detector.statistic, 2, guard.counts.losses)

    def test_it_has_the_lists_since_the_decline_began(self) -> None:
        """What was won before is of no importance; what was won in between is counted."""
        guard = counted(begun(promote=(1.0,)), win=50, loss=10)
        guard = counted(counted(guard, win=30), loss=5)
        assert guard.decline == (0, 5)
        guard = until_due(counted(guard, win=2), "loss")
        alarm = guard.alarmed(time=9.5, version=3)
        assert alarm.last_alarm is not None
        assert alarm.last_alarm.decline == (2, guard.counts.losses - 10)
        assert alarm.decline == (0, 0)
        assert counted(alarm.resumed(), loss=3, win=3).decline == (0, 0)

    def test_baseline_steps_back_and_keeps_watching(self, top: Guard) -> None:
        guard = until_due(top, "loss").alarmed(1.0, 2)
        assert (guard.stepped_back, guard.raised, guard.learned_share, guard.rung) == (True, True, 0.0, 0)
        assert votes(guard) == NOTHING
        assert guard.detector.alarm  # until a resume
        after = counted(guard, win=30, loss=10)
        assert after.period == ConfidenceSequence(30, 10, LEVEL)
        assert after.counts.wins == guard.counts.wins + 30
        assert after.stepped_back

    def test_nothing_else_is_due_while_it_stands(self, top: Guard) -> None:
        guard = until_due(top, "loss").alarmed(1.0, 2)
        worse, better = counted(guard, loss=100), counted(guard, win=1000)
        assert worse.due is None
        assert better.due is None
        assert better.on_rung.interval[0] > 0.5 - SLACK  # which would be a promotion
        assert (worse.alarms, better.rung) == (1, 0)

    def test_tell_only_reports(self) -> None:
        guard = until_due(begun(on_alarm="tell"), "win").promoted()
        before = until_due(guard, "loss")
        after = before.alarmed(1.0, 2)
        assert (after.raised, after.stepped_back, after.learned_share, after.rung) == (True, False, 0.5, 1)
        assert (votes(after), after.detector) == (votes(before), before.detector)
        assert (after.alarms, after.last_alarm and after.last_alarm.did) == (1, "tell")
        assert counted(after, loss=50).due is None
        assert counted(after, win=1000).due is None

    def test_rollback_returns_to_a_proven_version_and_starts_its_tests_again(self, top: Guard) -> None:
        top = top.changed(msgspec.structs.replace(SPEC, on_alarm="rollback"))
        guard = until_due(top, "loss").alarmed(1.0, 9, to_version=4)
        assert guard.last_alarm is not None
        assert (guard.last_alarm.did, guard.last_alarm.to_version) == ("rollback", 4)
        assert (guard.raised, guard.stepped_back, guard.rung, guard.learned_share) == (False, False, 0, 0.1)
        assert (guard.detector, votes(guard)) == (Detector(1000.0), NOTHING)
        again = until_due(guard, "loss").alarmed(2.0, 10, to_version=4)
        assert again.alarms == 2

    @pytest.mark.parametrize(("on_alarm", "to_version"), [("rollback", None), ("baseline", 4)])
    def test_without_rollback_or_a_proven_version_it_is_baseline(self, on_alarm: str, to_version: int | None) -> None:
        guard = until_due(begun(on_alarm=on_alarm), "loss").alarmed(1.0, 9, to_version)
        assert guard.last_alarm is not None
        assert (guard.last_alarm.did, guard.last_alarm.to_version, guard.stepped_back) == ("baseline", None, True)


class TestPromotion:
    def test_it_is_due_when_the_band_of_the_rung_is_above_one_half_minus_the_slack(self) -> None:
        guard = until_due(begun(), "win")
        assert guard.due == "promote"
        assert guard.on_rung.interval[0] > 0.5 - SLACK
        assert counted(begun(), win=guard.counts.wins - 1).on_rung.interval[0] <= 0.5 - SLACK

    def test_it_is_due_until_it_is_applied(self) -> None:
        guard = counted(until_due(begun(false_alarm_every=1e9), "win"), loss=10)
        assert guard.on_rung.interval[0] < 0.5 - SLACK
        assert guard.due == "promote"

    def test_each_rung_has_its_own_lists(self) -> None:
        before = until_due(begun(), "win")
        guard = before.promoted()
        assert (guard.rung, guard.learned_share, guard.promotions, guard.due) == (1, 0.5, 1, None)
        assert guard.on_rung == ConfidenceSequence(level=LEVEL)
        assert (guard.period, guard.proof, guard.detector) == (before.period, before.proof, before.detector)

    def test_the_top_is_the_end(self, top: Guard) -> None:
        assert (top.rung, top.learned_share, top.promotions) == (2, 1.0, 2)
        for guard in (top, begun(promote=(1.0,))):
            after = counted(guard, win=1000)
            assert (after.due, after.learned_share) == (None, 1.0)
            assert after.promoted().rung == guard.rung

    def test_an_alarm_comes_before_a_promotion_that_is_due(self) -> None:
        guard = counted(until_due(begun(), "win"), loss=200)
        assert guard.due == "alarm"
        assert guard.alarmed(1.0, 2).rung == 0


class TestNewStart:
    @pytest.mark.parametrize("on_alarm", ["baseline", "tell"])
    def test_a_resume_starts_the_tests_again_on_the_first_rung(self, on_alarm: str) -> None:
        guard = until_due(begun(on_alarm=on_alarm), "win").promoted()
        alarmed = counted(until_due(guard, "loss").alarmed(1.0, 2), loss=5, tie=1)
        after = alarmed.resumed()
        assert (after.raised, after.stepped_back, after.rung, after.learned_share) == (False, False, 0, 0.1)
        assert (after.detector, votes(after)) == (Detector(1000.0), NOTHING)
        assert (after.counts, after.alarms, after.last_alarm) == (alarmed.counts, 1, alarmed.last_alarm)
        assert until_due(after, "loss").due == "alarm"

    def test_a_resume_ends_an_alarm_that_is_only_due(self) -> None:
        after = until_due(begun(), "loss").resumed()
        assert (after.due, after.detector, after.alarms) == (None, Detector(1000.0), 0)

    def test_a_resume_without_an_alarm_changes_nothing(self) -> None:
        for guard in (counted(begun(), win=5, loss=3), until_due(begun(), "win")):
            assert guard.resumed() == guard

    def test_a_rollback_by_an_operator_keeps_the_rung_and_an_alarm(self, top: Guard) -> None:
        after = counted(top, loss=3).restarted()
        assert (after.detector, votes(after), after.due) == (Detector(1000.0), NOTHING, None)
        assert (after.rung, after.raised) == (2, False)
        assert until_due(top, "loss").alarmed(1.0, 2).restarted().stepped_back


class TestSettings:
    @pytest.mark.parametrize("change", [{"false_alarm_every": 50.0}, {"margin": 0.1}, {"promote": (0.2, 1.0)}], ids=str)
    def test_a_change_of_the_guarantees_starts_the_tests_again(self, top: Guard, change: dict[str, Any]) -> None:
        spec = msgspec.structs.replace(SPEC, **change)
        after = counted(top, loss=3).changed(spec)
        assert (after.spec, after.detector) == (spec, Detector(spec.false_alarm_every, spec.margin))
        assert (votes(after), after.rung, after.due) == (NOTHING, 0, None)
        assert (after.counts, after.promotions) == (counted(top, loss=3).counts, 2)

    @pytest.mark.parametrize(
        "change", [{"share": 0.5}, {"on_alarm": "tell"}, {"webhook": "https://a.example/b"}], ids=str
    )
    def test_other_changes_leave_the_tests_alone(self, top: Guard, change: dict[str, Any]) -> None:
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

    def test_a_reported_alarm_is_raised_again_when_an_action_is_asked_for(self) -> None:
        guard = until_due(begun(on_alarm="tell"), "loss").alarmed(1.0, 2)
        after = guard.changed(SPEC)
        assert (guard.raised, after.raised, after.due) == (True, False, None)
        assert after.count("loss").due == "alarm"

    @pytest.mark.parametrize(
        "change",
        [
            {"share": 0.0},
            {"share": 1.01},
            {"share": float("nan")},
            {"false_alarm_every": 0.0},
            {"margin": 0.3},
            {"promote": ()},
            {"promote": (0.0, 1.0)},
            {"promote": (0.5, 0.5)},
            {"promote": (0.5, 0.1)},
            {"promote": (0.5, 1.1)},
            {"webhook": "ftp://a.example"},
            {"webhook": "https://"},
            {"webhook": "http://a.example:99999"},
            {"webhook": "http://a.example/a b"},
            {"webhook": "http://a.example/" + "a" * 2000},
        ],
        ids=str,
    )
    def test_invalid_settings_are_refused(self, change: dict[str, Any]) -> None:
        spec = msgspec.structs.replace(SPEC, **change)
        for refuse in (Guard.begin, begun().changed):
            with pytest.raises(InvalidValue, match=f"guard: {next(iter(change))} must"):
                refuse(spec)


@dataclass
class Book:
    """A slow reference of a guard: it keeps every vote, and computes everything from all of them each time."""

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


@examples(10)
@given(st.randoms(use_true_random=False), st.sampled_from([0.2, 0.5, 0.95]))
def test_a_guard_does_the_same_as_one_that_keeps_every_vote(random: Any, rate: float) -> None:
    guard, book = begun(), Book(SPEC.false_alarm_every, len(SPEC.promote))
    for _ in range(120):
        won = random.random() < rate
        guard, expected = guard.count("win" if won else "loss"), book.vote(won)
        assert guard.due == expected
        if expected == "alarm":
            break
        if expected == "promote":
            guard, book.rung, book.since = guard.promoted(), book.rung + 1, len(book.votes)
    assert guard.rung == book.rung
