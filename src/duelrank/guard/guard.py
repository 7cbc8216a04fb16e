"""A guard: what is known of the learned ranker against the baseline, and what follows from it."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self
from urllib.parse import urlsplit

import msgspec

from duelrank.api import GuardSpec, OnAlarm
from duelrank.core.errors import InvalidValue
from duelrank.guard.confidence import ConfidenceSequence
from duelrank.guard.detector import Detector
from duelrank.guard.e_value import EValue
from duelrank.guard.lists import Outcome
from duelrank.guard.values import Value

__all__ = ["LEVEL", "SLACK", "Alarm", "Due", "Guard", "GuardCounts", "Reason", "Vote", "check_guard"]

#: What follows from the guard lists so far, and has to be noted before it happens.
Due = Literal["alarm", "promote"]
#: The probability that a band, or a proof of gain, is ever wrong.
LEVEL = 0.05
#: "Lately" is about so many decisive lists.
MEMORY = 100
#: Of a ladder.
MOST_RUNGS = 20
#: One rung up when the lower end of the band is above one half less this.
SLACK = 0.01


#: What becomes of a guard list: what it says, or why it is left out.
Vote = Literal[Outcome, "repeated", "ignored"]
_COUNTED: dict[Vote, str] = {
    "win": "wins",
    "loss": "losses",
    "tie": "ties",
    "no_click": "no_click",
    "repeated": "repeated",
    "ignored": "ignored",
}


class GuardCounts(Value, frozen=True):
    """Closed guard lists of all kinds, since the guard began.

    Parameters
    ----------
    wins, losses
        Lists that decided for the learned ranker, and against it.
    ties, no_click
        Lists that decided nothing.
    repeated
        Lists of users who had voted on that day.
    ignored
        Decisive lists of nobody knows whom, where these are ignored.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0
    no_click: int = 0
    repeated: int = 0
    ignored: int = 0

    @property
    def lists(self) -> int:
        """All of them."""
        return self.votes + self.ties + self.no_click + self.repeated

    @property
    def votes(self) -> int:
        """Decisive lists, those that were ignored included."""
        return self.wins + self.losses + self.ignored


class Reason(Value, frozen=True):
    """Why something is due: the detector's statistic when it became due, and the decisive lists that were won and lost until then.

    They are those of the period for an alarm, and those of the rung for a promotion; ``lately`` is the win rate of late.
    """

    due: Due
    statistic: float
    wins: int
    losses: int
    lately: float


class Alarm(Value, frozen=True):
    """An alarm: when, with which version, on what evidence, and what was done.

    Parameters
    ----------
    time
        Seconds, by the clock of the service.
    version
        The model version that was served.
    statistic
        Of the detector, which has reached its threshold.
    wins, losses
        Decisive lists of the period by then.
    lately
        As in `Guard`.
    did, to_version
        What was done, and the version that it went back to, if any.
    """

    time: float
    version: int
    statistic: float
    wins: int
    losses: int
    lately: float
    did: OnAlarm
    to_version: int | None = None


class Guard(Value, frozen=True):
    """Watches a learned ranker: counts guard lists, raises alarms, and leads it up its ladder. It is replaced, never changed.

    What follows from the counts is first only `due`; `alarmed` and `promoted` make it happen, so that a service can write it
    down between the two.

    Parameters
    ----------
    spec
        How to watch.
    detector
        Of harm.
    period
        The decisive lists since the guard began, the last alarm, or somebody's resume.
    on_rung
        The decisive lists since it came to its present rung.
    proof
        The decisive lists since gain was last proved, or the period began.
    lately
        The share of decisive lists that were won of late, about the last hundred.
    counts
        Of all guard lists.
    rung
        From 0.
    alarms, promotions
        So many there were.
    reason
        Why something has to happen, None where nothing has; it stays until that has happened.
    last_alarm
        The newest.
    raised
        Whether it stands: nobody has resumed, and no rollback has ended it.
    anonymous
        The share of recent decisive lists, about the last hundred, whose feedback had no user.

    Examples
    --------
    >>> from duelrank.guard import Guard, GuardSpec
    >>> guard = Guard.begin(GuardSpec(false_alarm_every=1000))
    >>> while guard.due is None:
    ...     guard = guard.count("loss")
    >>> guard.counts.losses, guard.due
    (22, 'alarm')
    >>> guard = guard.alarmed(time=0.0, version=1)
    >>> guard.stepped_back, guard.learned_share
    (True, 0.0)
    """

    spec: GuardSpec
    detector: Detector
    period: ConfidenceSequence = ConfidenceSequence(level=LEVEL)
    on_rung: ConfidenceSequence = ConfidenceSequence(level=LEVEL)
    proof: EValue = EValue()
    lately: float = 0.5
    counts: GuardCounts = GuardCounts()
    rung: int = 0
    alarms: int = 0
    promotions: int = 0
    reason: Reason | None = None
    last_alarm: Alarm | None = None
    raised: bool = False
    anonymous: float = 0.0

    @classmethod
    def begin(cls, spec: GuardSpec) -> Self:
        """Return a guard that has seen nothing yet."""
        check_guard(spec)
        return cls(spec, Detector(spec.false_alarm_every, spec.margin))

    @property
    def due(self) -> Due | None:
        """What has to happen."""
        return None if self.reason is None else self.reason.due

    @property
    def stepped_back(self) -> bool:
        """Whether the baseline is served and nothing is learned, because of an alarm."""
        return self.raised and self.last_alarm is not None and self.last_alarm.did == "baseline"

    @property
    def learned_share(self) -> float:
        """The share of lists, beside guard lists, that the learned ranker decides."""
        return 0.0 if self.stepped_back else self.spec.promote[self.rung]

    @property
    def gain(self) -> EValue:
        """Evidence that the learned ranker is better, in this period."""
        return EValue(self.period.wins, self.period.losses)

    @property
    def has_fresh_proof(self) -> bool:
        """Whether gain was proved by the lists since it was last proved: the present version is one to go back to."""
        return self.proof.proves(LEVEL)

    def count(self, outcome: Vote, anonymous: bool = False) -> Guard:
        """Return the guard after one more closed guard list.

        Parameters
        ----------
        outcome
            What the list says; "repeated" is one whose user has voted that day.
        anonymous
            Whether nobody knows the user of the list.
        """
        if anonymous and outcome in ("win", "loss") and self.spec.anonymous == "ignore":
            outcome = "ignored"
        counts, named = self.counts, _COUNTED[outcome]
        after = self._with(counts=msgspec.structs.replace(counts, **{named: getattr(counts, named) + 1}))
        if after.counts.votes > counts.votes:
            share = self.anonymous + (anonymous - self.anonymous) / min(after.counts.votes, MEMORY)
            after = after._with(anonymous=share)
        return after._decided(outcome == "win") if outcome in ("win", "loss") else after

    def _decided(self, won: bool) -> Guard:
        after = self._with(
            detector=self.detector.update(won),
            period=self.period.update(won),
            on_rung=self.on_rung.update(won),
            proof=self.proof.update(won),
            lately=self.lately + (won - self.lately) / min(self.period.decisive + 1, MEMORY),
        )
        return after if after.raised or after.due == "alarm" else after._with(reason=after._reason())

    def _reason(self) -> Reason | None:
        statistic = self.detector.statistic
        if self.detector.alarm:
            return Reason("alarm", statistic, self.period.wins, self.period.losses, self.lately)
        up = self.rung + 1 < len(self.spec.promote) and self.on_rung.interval[0] > 0.5 - SLACK
        if up and self.reason is None:
            return Reason("promote", statistic, self.on_rung.wins, self.on_rung.losses, self.lately)
        return self.reason

    def proved(self) -> Guard:
        """Return the guard that waits for the next proof of gain."""
        return self._with(proof=EValue())

    def alarmed(self, time: float, version: int, to_version: int | None = None) -> Guard:
        """Return the guard after an alarm.

        Parameters
        ----------
        time, version
            When it was raised, and the version that was served.
        to_version
            The newest version that had proved gain, where there is one; a guard that rolls back goes there, and watches anew.
        """
        if self.reason is None or self.reason.due != "alarm":
            raise InvalidValue("no alarm is due")
        did = self.spec.on_alarm
        if did == "rollback" and to_version is None:
            did = "baseline"
        evidence = (self.reason.statistic, self.reason.wins, self.reason.losses, self.reason.lately)
        alarm = Alarm(time, version, *evidence, did, to_version if did == "rollback" else None)
        after = self._with(alarms=self.alarms + 1, reason=None, last_alarm=alarm, raised=did != "rollback")
        if did == "tell":
            return after
        after = after._with(rung=0, **_NO_VOTES)
        return after._with(detector=self.detector.reset()) if did == "rollback" else after

    def promoted(self) -> Guard:
        """Return the guard one rung up."""
        up = min(self.rung + 1, len(self.spec.promote) - 1)
        return self._with(rung=up, promotions=self.promotions + 1, reason=None, on_rung=_NO_VOTES["on_rung"])

    def resumed(self) -> Guard:
        """Return the guard after somebody has ended an alarm: it watches anew, from the first rung. Without an alarm, the same."""
        if not self.raised and self.due != "alarm":
            return self
        return self._with(detector=self.detector.reset(), rung=0, reason=None, raised=False, **_NO_VOTES)

    def restarted(self) -> Guard:
        """Return the guard after an operator has gone back to another version: it watches anew; the rung and an alarm stay."""
        return self._with(detector=self.detector.reset(), reason=None, **_NO_VOTES)

    def changed(self, spec: GuardSpec) -> Guard:
        """Return the guard with other settings; it begins anew where it promises something else, but an alarm stands.

        One that was only told does not stand where something shall be done about it: it is raised again by the next decisive list.
        """
        check_guard(spec)
        told = self.last_alarm is not None and self.last_alarm.did == "tell" and spec.on_alarm != "tell"
        raised = self.raised and not told
        promises = ("false_alarm_every", "margin", "promote")
        if any(getattr(spec, name) != getattr(self.spec, name) for name in promises):
            kept = {name: getattr(self, name) for name in ("counts", "alarms", "promotions", "last_alarm", "anonymous")}
            return Guard.begin(spec)._with(raised=raised, **kept)
        return self._with(spec=spec, raised=raised)

    def _with(self, **changes: object) -> Guard:
        return msgspec.structs.replace(self, **changes)


_NO_VOTES: dict[str, object] = {
    "period": ConfidenceSequence(level=LEVEL),
    "on_rung": ConfidenceSequence(level=LEVEL),
    "proof": EValue(),
}


def check_guard(spec: GuardSpec) -> None:
    """Raise where settings of a guard make no sense."""
    if not 0.0 < spec.share <= 1.0:
        raise InvalidValue(
            f"guard: share is the share of lists that compare, above 0 and up to 1, got {spec.share!r}; null is no guard"
        )
    try:
        Detector(spec.false_alarm_every, spec.margin)
    except InvalidValue as error:
        raise InvalidValue(f"guard: {error}") from None
    rungs = spec.promote
    rising = all(0.0 < rung <= 1.0 for rung in rungs) and all(a < b for a, b in pairwise(rungs))
    if not rising or not 0 < len(rungs) <= MOST_RUNGS:
        raise InvalidValue(
            f"guard: promote has 1 to {MOST_RUNGS} rising shares above 0 and up to 1, such as [0.1, 0.5, 1.0], got "
            f"{list(rungs[: MOST_RUNGS + 1])}; [1.0] is no ladder"
        )
    if spec.webhook is not None:
        _check_address(spec.webhook)


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or len(address) > 2000 or any(each <= " " or each == "\x7f" for each in address):
        raise InvalidValue(f"guard: webhook is an http or https address, got {address[:200]!r}")
