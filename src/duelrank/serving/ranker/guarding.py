"""What is told of a guard."""

from __future__ import annotations

from collections.abc import Iterator

from duelrank.api import GuardAlarm, GuardInfo, GuardRung
from duelrank.evidence.guard import LEVEL, SLACK, Alarm, Guard
from duelrank.serving.observer import GuardEvent

__all__ = ["alarm_sentence", "event_sentence", "guard_info", "guard_warnings"]

#: Fewest decisive lists for a warning that most of them are anonymous.
FEWEST_VOTES = 20
_FOLLOWS = {
    "count": "there is no limit to the votes of one user, so a script may decide; send user_id with the feedback, or set "
    "anonymous=ignore in the guard",
    "ignore": "the guard ignores these (anonymous=ignore), so it knows little of what users prefer; send user_id with the feedback",
}


def guard_info(name: str, version: int, guard: Guard) -> GuardInfo:
    """Return how a ranker does against its baseline."""
    period, gain, counts = guard.period, guard.gain, guard.counts
    low, high = period.interval
    alarm = guard.last_alarm
    return GuardInfo(
        name=name,
        model_version=version,
        state="alarm" if guard.raised else "watching",
        summary=_summary(guard),
        lists=counts.lists,
        decisive=period.decisive,
        wins=period.wins,
        losses=period.losses,
        ties=counts.ties,
        no_click=counts.no_click,
        repeated=counts.repeated,
        win_rate=period.rate,
        low=low,
        high=high,
        level=LEVEL,
        e_value=gain.value,
        proved=gain.proves(LEVEL),
        statistic=guard.detector.statistic,
        threshold=guard.spec.false_alarm_every,
        rung=_rung(guard),
        learned_share=guard.learned_share,
        alarms=guard.alarms,
        promotions=guard.promotions,
        last_alarm=None if alarm is None else _alarm(alarm, guard.spec.false_alarm_every),
        guard=guard.spec,
        lately=guard.lately,
        ignored=counts.ignored,
        anonymous=guard.anonymous,
        warnings=tuple(guard_warnings(guard)),
    )


def guard_warnings(guard: Guard) -> Iterator[str]:
    """Yield what an operator should know of a guard."""
    if guard.counts.votes >= FEWEST_VOTES and guard.anonymous > 0.5:
        yield f"{guard.anonymous:.0%} of the latest decisive lists have no user_id: {_FOLLOWS[guard.spec.anonymous]}"


def _rung(guard: Guard) -> GuardRung:
    found, rungs = guard.on_rung, guard.spec.promote
    place = (guard.rung + 1, len(rungs), rungs[guard.rung])
    return GuardRung(*place, found.wins, found.losses, found.rate, *found.interval, 0.5 - SLACK)


def _alarm(alarm: Alarm, threshold: float) -> GuardAlarm:
    evidence = (alarm.statistic, alarm.wins, alarm.losses)
    done = (alarm.did, alarm.to_version, alarm_sentence(alarm, threshold))
    return GuardAlarm(alarm.time, alarm.version, *evidence, *done, alarm.lately)


def alarm_sentence(alarm: Alarm, threshold: float) -> str:
    """Return why an alarm was raised, and what was done."""
    done = {
        "baseline": "your own order is served, and nothing is learned until somebody resumes",
        "rollback": f"version {alarm.to_version}, the newest that had proved gain, is served again and learns on",
        "tell": "nothing was changed",
    }
    return (
        f"the learned ranker won {alarm.wins:,} and lost {alarm.losses:,} decisive lists against your own order, and of late only "
        f"{alarm.lately:.0%}; the statistic {alarm.statistic:,.0f} reached {threshold:,.0f}: {done[alarm.did]}"
    )


def event_sentence(event: GuardEvent, info: GuardInfo) -> str:
    """Return what has happened, as a line of the log says it."""
    if event == "promotion":
        rung = info.rung
        return f"Rung {rung.number} of {rung.rungs}: the learned ranker decides {rung.share:.0%} of the lists. {info.summary}"
    if event == "resume":
        return f"Somebody has resumed: the learned ranker is watched anew, and decides {info.learned_share:.0%} of the lists."
    if info.last_alarm is not None and info.state == "watching":
        return f"Alarm: {info.last_alarm.reason}."
    return info.summary


def _summary(guard: Guard) -> str:
    """Return what one would say if one were asked how it goes."""
    period = guard.period
    if guard.raised and guard.last_alarm is not None:
        said = f"Alarm: {alarm_sentence(guard.last_alarm, guard.spec.false_alarm_every)}."
        return f"{said} Since then {_record(guard)}" if guard.stepped_back and period.decisive else said
    if not period.decisive:
        return "No decisive list yet: nothing is known."
    return f"The learned ranker {_record(guard)} {_verdict(guard)}"


def _record(guard: Guard) -> str:
    period = guard.period
    low, high = period.interval
    return (
        f"won {period.rate:.1%} of {period.decisive:,} decisive lists against your own order "
        f"({low:.1%} to {high:.1%} at level {LEVEL})."
    )


def _verdict(guard: Guard) -> str:
    if guard.gain.proves(LEVEL):
        return "It is proved to be better."
    if guard.period.interval[1] < 0.5:
        return "It does worse."
    return "Whether it is better is not known yet."
