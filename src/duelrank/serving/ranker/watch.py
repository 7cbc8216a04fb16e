"""How a machine watches what it has learned: its guard, who has voted, and where to go back to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from duelrank.api import GuardSpec
from duelrank.core.registry import Part
from duelrank.core.types import Gains, State
from duelrank.guard import Guard, Voters
from duelrank.guard.guard import Vote
from duelrank.guard.lists import outcome_of
from duelrank.serving.log.bodies import Control, Evidence, pack_state, unpack_state, unpack_teams

__all__ = ["Watch", "Watched"]


class Watched(msgspec.Struct, array_like=True):
    """A watch in a checkpoint."""

    guard: Guard
    floor: int
    due_since: int
    proven: tuple[int, bytes] | None
    voters: tuple[int, bytes]


class Watch:
    """Watches one ranker; without a spec it does nothing. A function of the events, as the machine is.

    Parameters
    ----------
    spec
        How it is guarded.
    floor
        Guard lists of versions up to this one say nothing of what is watched now.
    due_since
        The number of the event with which something became due; what became due before it began does not concern it.
    """

    def __init__(self, spec: GuardSpec | None, floor: int = 0, due_since: int = 0) -> None:
        self.guard = None if spec is None else Guard.begin(spec)
        self.floor, self.due_since = floor, due_since
        self.proven: tuple[int, State] | None = None  # the newest version that had proved gain, to roll back to
        self._voters = Voters()

    @property
    def stepped_back(self) -> bool:
        """Whether an alarm has made the ranker step back: nothing is learned."""
        return self.guard is not None and self.guard.stepped_back

    def change(self, spec: GuardSpec) -> None:
        """Go on with other settings of the guard that there is."""
        assert self.guard is not None
        self.guard = self.guard.changed(spec)
        if spec.on_alarm != "rollback":
            self.proven = None

    def go_back(self, version: int) -> None:
        """An operator has gone back to an earlier version: what was seen of those up to this one says nothing of it."""
        if self.guard is not None:
            self.guard, self.floor, self.proven = self.guard.restarted(), version, None

    def carry(self, carried: Callable[[State], State]) -> None:
        """Go on with other features."""
        if self.proven is not None:
            self.proven = self.proven[0], carried(self.proven[1])

    def vote(
        self, teams: bytes, gains: Gains, user: bytes, made_by: tuple[int, State] | None, number: int, time: float
    ) -> str:
        """Count a guard list that was closed by an event, and return what it says; one vote per user and day.

        Parameters
        ----------
        teams, gains
            Of the list, at its positions.
        user
            A hash, empty where nobody knows.
        made_by
            The version that the list was made with; needed only for a guard that may roll back.
        number, time
            Of the event.
        """
        if self.guard is None:
            return ""
        vote: Vote = outcome_of(unpack_teams(teams), gains)
        if vote in ("win", "loss") and user and not self._voters.admit(user, time):
            vote = "repeated"
        before, self.guard = self.guard, self.guard.count(vote, anonymous=not user)
        if self.guard.counts.ignored > before.counts.ignored:
            vote = "ignored"
        if self.guard.due != before.due:
            self.due_since = number
        if made_by is not None and self.guard.has_fresh_proof:
            self.proven, self.guard = made_by, self.guard.proved()
        return vote

    def due(self) -> tuple[str, Control] | None:
        """Return the event by which what is due would happen, with its key; None where nothing is due."""
        reason = None if self.guard is None else self.guard.reason
        if reason is None:
            return None
        evidence = Evidence(reason.statistic, reason.wins, reason.losses)
        return f"{reason.due}/{self.due_since}", Control(reason.due, evidence=evidence)

    def act(self, action: str, due: int, time: float, version: int) -> State | None:
        """Do what is due, unless an operator was quicker; return the state to go back to, where there is one.

        Parameters
        ----------
        action
            "alarm" or "promote".
        due
            The number of the event with which it became due.
        time, version
            When, and the version that is served.
        """
        guard = self.guard
        if guard is None or guard.due != action or due != self.due_since:
            return None
        if action == "promote":
            self.guard = guard.promoted()
            return None
        proven, self.proven = self.proven, None  # from there, gain has to be proved again
        self.guard = guard.alarmed(time, version, None if proven is None else proven[0])
        if proven is None or self.guard.raised:
            return None
        self.floor = version
        return proven[1]

    def resume(self, version: int) -> None:
        """End an alarm: watch anew what comes after this version."""
        if self.guard is not None and (after := self.guard.resumed()) is not self.guard:
            self.guard, self.floor = after, version

    def note(self) -> Watched | None:
        """Return all that is needed to go on from here."""
        if self.guard is None:
            return None
        proven = None if self.proven is None else (self.proven[0], pack_state(self.proven[1]))
        return Watched(self.guard, self.floor, self.due_since, proven, (self._voters.day, self._voters.hashes))

    @classmethod
    def restored(cls, noted: Watched | None, recipe: Part) -> Watch:
        """Return a watch that goes on from what was noted."""
        watch = cls(None)
        if noted is not None:
            watch.guard, watch.floor, watch.due_since = noted.guard, noted.floor, noted.due_since
            watch.proven = None if noted.proven is None else (noted.proven[0], unpack_state(noted.proven[1], recipe))
            watch._voters = Voters(*noted.voters)
        return watch
