"""The guard of a learning ranker: compares it with the baseline, raises alarms, and promotes it step by step.

The baseline is the production ranking. A guard list is a team draft of the baseline and the learned ranker's best list.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.types import Clicks, Gains, Ranking, Stream
from duelrank.evidence.sequential import ConfidenceSequence, Detector, EValue, Value
from duelrank.kernels.multileaving import team_draft_leave
from duelrank.kernels.random import uniform

#: Source of the order of a list: a team draft of both rankers ("guard"), the learned ranker, or the baseline.
Kind: TypeAlias = Literal["guard", "learned", "baseline"]
#: Outcome of a closed guard list for the learned ranker; only a win or a loss is decisive.
Outcome: TypeAlias = Literal["win", "loss", "tie", "no_click"]
#: How a closed guard list is counted: by its outcome, or as a vote that is left out.
Vote: TypeAlias = Literal[Outcome, "repeated", "ignored"]
#: An action that follows from the counts. A service records it in its log before it applies it.
Due: TypeAlias = Literal["alarm", "promote"]
#: Owner of each position of a guard list; −1 in the common top of both rankings.
Teams: TypeAlias = NDArray[np.int64]

BASELINE, LEARNED = 0, 1
#: Probability that a band, or a proof of gain, is ever wrong.
LEVEL = 0.05
#: Number of decisive lists in a recent win rate.
MEMORY = 100
#: The largest number of rungs of a ladder.
MAX_RUNGS = 20
#: A ranker is promoted when the lower end of the band is above one half minus this slack.
SLACK = 0.01
#: The largest number of voters of a day that are remembered; beyond it, the earliest are forgotten and may vote again.
MAX_VOTERS = 20_000

_DAY = 86_400.0  # seconds
_HASH_BYTES = 8

OnAlarm = Literal["baseline", "rollback", "tell"]
Anonymous = Literal["count", "ignore"]


class GuardSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a guard; a part of the stored state of a `Guard`, so fields are only added, with defaults.

    Parameters
    ----------
    share
        Share of all lists that compare the learned ranker with the baseline.
    false_alarm_every
        Lower bound of the mean number of decisive lists between two false alarms.
    margin
        Distance below one half that the probability of winning a decisive list may have without an alarm.
    on_alarm
        "baseline" serves the baseline and stops learning; "rollback" restores the newest version with proved gain, or acts as
        "baseline" if there is none; "tell" only reports the alarm.
    promote
        Rising shares of the other lists that the learned ranker decides, one for each rung.
    webhook
        http or https address that receives alarms and promotions.
    anonymous
        Treatment of decisive lists without a user: "count" or "ignore".

    Examples
    --------
    >>> from duelrank.evidence import GuardSpec
    >>> GuardSpec(share=0.1).promote
    (0.5, 1.0)
    """

    share: float = 0.2
    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    on_alarm: OnAlarm = "baseline"
    promote: tuple[float, ...] = (0.5, 1.0)
    webhook: str | None = None
    anonymous: Anonymous = "count"


def draw_kind(stream: Stream, share: float, learned_share: float) -> Kind:
    """Draw the kind of the next list.

    Parameters
    ----------
    stream
        Random stream of this list; `guard_list` continues it.
    share
        Share of guard lists among all lists.
    learned_share
        Share of lists in the learned order among the other lists.
    """
    if uniform(stream) < share:
        return "guard"
    return "learned" if learned_share >= 1.0 or uniform(stream) < learned_share else "baseline"


def guard_list(baseline: Ranking, learned: Ranking, length: int, stream: Stream) -> tuple[Ranking, Teams]:
    """Return a team draft of two rankings of the same documents, and the owner of each position."""
    draft: tuple[Ranking, Teams] = team_draft_leave(np.stack((baseline, learned)), min(length, len(baseline)), stream)
    return draft


def outcome_of(teams: Teams, gains: Clicks | Gains) -> Outcome:
    """Return the outcome of a guard list: the team with the larger gain wins; a plain click has a gain of 1.

    Examples
    --------
    >>> outcome_of(np.array([-1, 0, 1, 1]), np.array([True, True, True, True]))
    'win'
    >>> outcome_of(np.array([-1, 0, 1, 1]), np.array([0.0, 10.0, 1.0, 1.0]))
    'loss'
    """
    if not gains.any():
        return "no_click"
    learned, baseline = gains[teams == LEARNED].sum(), gains[teams == BASELINE].sum()
    if math.isclose(learned, baseline):  # sums that differ by rounding only
        return "tie"
    return "win" if learned > baseline else "loss"


class Voters:
    """Users who have voted on the present day, as hashes of 8 bytes: one vote per user and day, in bounded memory.

    Parameters
    ----------
    day
        Number of the present day, counted from 1970-01-01.
    hashes
        Concatenated hashes of the users who have voted, in the order of their votes.

    Examples
    --------
    >>> from duelrank.evidence import Voters
    >>> voters = Voters()
    >>> [voters.admit(user, time=0.0) for user in (b"11111111", b"22222222", b"11111111")], len(voters)
    ([True, True, False], 2)
    """

    def __init__(self, day: int = 0, hashes: bytes = b"") -> None:
        if len(hashes) % _HASH_BYTES:
            raise InvalidValue(f"hashes of voters have {_HASH_BYTES} bytes each")
        self.day = day
        self._voted = dict.fromkeys(hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES))

    def __len__(self) -> int:
        return len(self._voted)

    @property
    def hashes(self) -> bytes:
        """Concatenated hashes of the users who have voted, in the order of their votes."""
        return b"".join(self._voted)

    def has_voted(self, user: bytes, time: float) -> bool:
        """Return whether a user has voted on the day of a time in seconds."""
        return self.day - 1 <= int(time // _DAY) <= self.day and user in self._voted

    def admit(self, user: bytes, time: float) -> bool:
        """Return whether a user may vote at a time in seconds; record the vote if it is allowed."""
        day = int(time // _DAY)
        if not self.day - 1 <= day <= self.day:  # a new day, or the clock had been far ahead
            self.day, self._voted = day, {}
        if user in self._voted:
            return False
        self._voted[user] = None
        if len(self._voted) > MAX_VOTERS:
            del self._voted[next(iter(self._voted))]
        return True


class GuardCounts(Value, frozen=True):
    """Numbers of closed guard lists since the guard began.

    Parameters
    ----------
    wins, losses
        Number of lists that the learned ranker won, and that it lost.
    ties, no_click
        Number of lists that were not decisive.
    repeated
        Number of lists whose user had already voted on that day.
    ignored
        Number of decisive lists without a user that were left out, if the settings ask for that.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0
    no_click: int = 0
    repeated: int = 0
    ignored: int = 0

    @property
    def lists(self) -> int:
        """Number of all closed guard lists."""
        return self.votes + self.ties + self.no_click + self.repeated

    @property
    def votes(self) -> int:
        """Number of decisive lists, including the ignored ones."""
        return self.wins + self.losses + self.ignored


_FIELDS: dict[Vote, str] = {"win": "wins", "loss": "losses", "tie": "ties"}  # other votes have the name of their field


class Reason(Value, frozen=True):
    """The reason of a due action: the evidence at the time when it became due.

    Wins and losses are those of the period for an alarm, and those on the rung for a promotion; ``lately`` is the recent win rate,
    ``decline`` that of the guard.
    """

    due: Due
    statistic: float
    wins: int
    losses: int
    lately: float
    decline: tuple[int, int] = (0, 0)


class Alarm(Value, frozen=True):
    """An alarm: its time, the served version, the evidence, and the action.

    Parameters
    ----------
    time
        Time in seconds, by the clock of the service.
    version
        Model version that was served.
    statistic
        Statistic of the detector, which had reached its threshold.
    wins, losses
        Number of decisive lists of the period that were won, and that were lost.
    lately
        Win rate over about the last hundred decisive lists.
    did, to_version
        The action, and the version that was restored by a rollback.
    decline
        Wins and losses since the decline began, see `Guard`; (0, 0) in alarms of earlier versions of duelrank.
    """

    time: float
    version: int
    statistic: float
    wins: int
    losses: int
    lately: float
    did: OnAlarm
    to_version: int | None = None
    decline: tuple[int, int] = (0, 0)


class Guard(Value, frozen=True):
    """Watches a learned ranker: counts guard lists, raises alarms, and promotes the ranker. A guard is immutable.

    An action that follows from the counts is `due` first; `alarmed` and `promoted` apply it. A service writes the action to its
    log in between.

    Parameters
    ----------
    spec
        Settings of the guard.
    detector
        Harm detector.
    period
        Win rate since the guard began, the last alarm, or the last resume.
    on_rung
        Win rate since the ranker reached its present rung.
    proof
        Evidence of gain since gain was last proved, or since the period began.
    lately
        Win rate over about the last hundred decisive lists.
    counts
        Numbers of guard lists by outcome.
    rung
        Index of the present rung, from 0.
    alarms, promotions
        Number of alarms and of promotions since the guard began.
    reason
        Reason of the action that is due, or None. It stays until the action is applied.
    last_alarm
        The latest alarm.
    raised
        Whether the latest alarm stands: it ends by a resume, or by a rollback.
    anonymous
        Share of about the last hundred decisive lists that had no user.
    decline
        Wins and losses among the latest decisive lists, as far back as their losses outnumber their wins the most.

    Examples
    --------
    >>> from duelrank.evidence import Guard, GuardSpec
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
    decline: tuple[int, int] = (0, 0)

    @classmethod
    def begin(cls, spec: GuardSpec) -> Self:
        """Return a guard that has not counted any list."""
        check_guard(spec)
        return cls(spec, Detector(spec.false_alarm_every, spec.margin))

    @property
    def due(self) -> Due | None:
        """The action that is due."""
        return None if self.reason is None else self.reason.due

    @property
    def stepped_back(self) -> bool:
        """Whether the service shows the baseline and learns nothing, because of an alarm."""
        return self.raised and self.last_alarm is not None and self.last_alarm.did == "baseline"

    @property
    def learned_share(self) -> float:
        """Share of lists in the learned order among those that are not guard lists."""
        return 0.0 if self.stepped_back else self.spec.promote[self.rung]

    @property
    def gain(self) -> EValue:
        """Evidence that the learned ranker is better, in this period."""
        return EValue(self.period.wins, self.period.losses)

    @property
    def has_fresh_proof(self) -> bool:
        """Whether the lists since the last proof of gain prove it again: a rollback may return to the present version."""
        return self.proof.proves(LEVEL)

    def count(self, outcome: Vote, anonymous: bool = False) -> Guard:
        """Return the guard after one more closed guard list.

        Parameters
        ----------
        outcome
            Outcome of the list; "repeated" if its user had already voted on that day.
        anonymous
            Whether the list has no user.
        """
        if anonymous and outcome in ("win", "loss") and self.spec.anonymous == "ignore":
            outcome = "ignored"
        counts, field = self.counts, _FIELDS.get(outcome, outcome)
        after = self._with(counts=msgspec.structs.replace(counts, **{field: getattr(counts, field) + 1}))
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
            decline=self._decline(won),
        )
        return after if after.raised or after.due == "alarm" else after._with(reason=after._reason())

    def _decline(self, won: bool) -> tuple[int, int]:
        wins, losses = self.decline[0] + won, self.decline[1] + (not won)
        return (wins, losses) if losses > wins else (0, 0)

    def _reason(self) -> Reason | None:
        statistic = self.detector.statistic
        if self.detector.alarm:
            return Reason("alarm", statistic, self.period.wins, self.period.losses, self.lately, self.decline)
        ready = self.rung + 1 < len(self.spec.promote) and self.on_rung.interval[0] > 0.5 - SLACK
        if ready and self.reason is None:
            return Reason("promote", statistic, self.on_rung.wins, self.on_rung.losses, self.lately)
        return self.reason

    def proved(self) -> Guard:
        """Return the guard that collects evidence for the next proof of gain."""
        return self._with(proof=EValue())

    def alarmed(self, time: float, version: int, to_version: int | None = None) -> Guard:
        """Return the guard after an alarm.

        Parameters
        ----------
        time, version
            Time of the alarm in seconds, and the version that was served.
        to_version
            The newest version that had proved gain, or None. A guard with ``on_alarm="rollback"`` returns to it and starts its
            tests again; without it, such a guard shows the baseline.
        """
        if self.reason is None or self.reason.due != "alarm":
            raise InvalidValue("no alarm is due")
        did = self.spec.on_alarm
        if did == "rollback" and to_version is None:
            did = "baseline"
        evidence = (self.reason.statistic, self.reason.wins, self.reason.losses, self.reason.lately)
        alarm = Alarm(time, version, *evidence, did, to_version if did == "rollback" else None, self.reason.decline)
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
        """Return the guard after a resume, which ends an alarm: its tests start again, on the first rung.

        Without an alarm nothing changes.
        """
        if not self.raised and self.due != "alarm":
            return self
        return self._with(detector=self.detector.reset(), rung=0, reason=None, raised=False, **_NO_VOTES)

    def restarted(self) -> Guard:
        """Return the guard after an operator's rollback: its tests start again; the rung stays, and so does an alarm."""
        return self._with(detector=self.detector.reset(), reason=None, **_NO_VOTES)

    def changed(self, spec: GuardSpec) -> Guard:
        """Return the guard with other settings.

        If the settings change what the tests guarantee, the tests start again, on the first rung; an alarm stands. An alarm that
        was only reported ends if ``on_alarm`` now asks for an action: the next decisive list raises it again.
        """
        check_guard(spec)
        reported = self.last_alarm is not None and self.last_alarm.did == "tell" and spec.on_alarm != "tell"
        raised = self.raised and not reported
        guarantees = ("false_alarm_every", "margin", "promote")
        if any(getattr(spec, name) != getattr(self.spec, name) for name in guarantees):
            kept = {name: getattr(self, name) for name in ("counts", "alarms", "promotions", "last_alarm", "anonymous")}
            return Guard.begin(spec)._with(raised=raised, **kept)
        return self._with(spec=spec, raised=raised)

    def _with(self, **changes: object) -> Guard:
        return msgspec.structs.replace(self, **changes)


_NO_VOTES: dict[str, object] = {
    "period": ConfidenceSequence(level=LEVEL),
    "on_rung": ConfidenceSequence(level=LEVEL),
    "proof": EValue(),
    "decline": (0, 0),
}


def check_guard(spec: GuardSpec) -> None:
    """Raise an error if the settings of a guard are invalid."""
    if not 0.0 < spec.share <= 1.0:
        raise InvalidValue(f"guard: share must be above 0 and at most 1, got {spec.share!r}; for no guard use null")
    try:
        Detector(spec.false_alarm_every, spec.margin)
    except InvalidValue as error:
        raise InvalidValue(f"guard: {error}") from None
    rungs = spec.promote
    rising = all(0.0 < rung <= 1.0 for rung in rungs) and all(a < b for a, b in pairwise(rungs))
    if not rising or not 0 < len(rungs) <= MAX_RUNGS:
        raise InvalidValue(
            f"guard: promote must have 1 to {MAX_RUNGS} rising shares above 0 and at most 1, such as [0.5, 1.0], got "
            f"{list(rungs[: MAX_RUNGS + 1])}; for no ladder use [1.0]"
        )
    if spec.webhook is not None:
        _check_address(spec.webhook)


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or len(address) > 2000 or any(each <= " " or each == "\x7f" for each in address):
        raise InvalidValue(f"guard: webhook must be an http or https address, got {address[:200]!r}")
