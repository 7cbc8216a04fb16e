"""Applies the events of an experiment, one by one; the result, live, after a restart or in a replay, depends on the events only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeAlias

import msgspec
import numpy as np

from duelrank.core.errors import InvalidValue, StorageFailure, StoreCorrupt
from duelrank.core.types import Memory
from duelrank.evidence import InOrder, Result, Voters
from duelrank.evidence.interleaving import ROUNDING, Tally, WinHistory
from duelrank.service import log
from duelrank.service.definition import OLD, Outcome
from duelrank.service.experiments import ExperimentDefinition
from duelrank.service.machine import ClosedImpression, EventMachine, OpenImpression, feedback_on
from duelrank.service.machine import Tally as ClosedTally
from duelrank.storage import Event

#: Returns the body of an impression and the lists of its systems, by its id and its number; None if they are gone.
FetchLists: TypeAlias = Callable[[str, int], tuple[log.StoredImpression, list[list[str]]] | None]


class ListOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the clicks on a closed list say: the preference of each system over each later one, empty if it has no winner.

    ``time`` is when the list was shown, ``user`` the hash of its user, empty if not known.
    """

    time: float
    user: bytes
    clicked: bool
    preferences: list[float]


class ExperimentStatus(msgspec.Struct, frozen=True, array_like=True):
    """How far an experiment has come at an event; the leader saves it for followers.

    Parameters
    ----------
    number
        Number of the event.
    closed
        Numbers of lists that were shown, and of closed ones.
    open, waiting
        Numbers of open lists, and of closed ones that wait for an earlier one.
    repeated, decisive, anonymous
        Numbers of lists with a winner: those that do not count because their user has voted that day; those that count; and of
        these, those without a user.
    counts, history, times
        Counts of pairs, at earlier times, and when the last list of each time was shown.
    stopped
        Time at which the experiment was stopped, None if it runs.
    counted
        Time at which the last counted list was shown, 0 before the first.
    """

    number: int
    closed: ClosedTally
    open: int
    waiting: int
    repeated: int
    decisive: int
    anonymous: int
    counts: dict[str, Any]
    history: dict[str, Any]
    times: list[float]
    stopped: float | None
    counted: float

    def result(self, systems: tuple[str, ...]) -> Result:
        """Return the preferences between the systems so far."""
        try:
            past = WinHistory.from_dict(self.history, len(systems))
            return Tally.from_dict(self.counts, len(systems)).result(systems, past, "anytime")
        except (InvalidValue, LookupError, TypeError, ValueError) as error:
            raise StoreCorrupt(f"the counts of an experiment are damaged: {error}") from None


class _Checkpoint(msgspec.Struct, array_like=True):
    status: ExperimentStatus
    open: dict[str, OpenImpression]
    order: dict[int, ListOutcome | None]
    voters: tuple[int, bytes]


class ExperimentMachine(EventMachine):
    """Applies the events of one experiment, in the order of their numbers; lists count in the order in which they were shown.

    Parameters
    ----------
    definition
        Definition of the experiment.
    fetch
        Returns an impression and the lists that it was merged from.
    """

    def __init__(self, definition: ExperimentDefinition, fetch: FetchLists) -> None:
        super().__init__(definition.number)
        self.definition, self._fetch = definition, fetch
        self.stopped: float | None = None
        self.order: InOrder[int, ListOutcome] = InOrder()
        self._voters = Voters()
        self._counts, self._history = Tally.empty(len(definition.spec.all_systems)), WinHistory()
        self._times: list[float] = []
        self._repeated = self._decisive = self._anonymous = 0
        self._counted = 0.0
        self._counting = Lock()  # other threads read the status

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.definition.spec.name

    @property
    def close_after(self) -> float:
        """Seconds after which an open list is closed."""
        return self.definition.spec.close_after

    @property
    def actions(self) -> Mapping[str, float]:
        """Weights of actions by name."""
        return self.definition.spec.actions

    def _apply_other(self, event: Event) -> ClosedImpression | None:
        if event.kind == log.IMPRESSION:
            self._apply_impression(event)
        elif event.kind == log.CONTROL:
            if log.unpack(event.body, log.Control).action == "stop" and self.stopped is None:
                self.stopped = event.time
        else:
            raise self._unknown_kind(event)
        return None

    def _apply_impression(self, event: Event) -> None:
        stored = log.unpack(event.body, log.StoredImpression)
        head = (event.number, event.time, stored.version, OLD)
        self.open[event.key] = OpenImpression(*head, [], None, False, user=stored.user, length=len(stored.order))
        self.order.show(event.number)
        self.tally.impressions += 1

    def _apply_closed(self, id: str, event: Event) -> ClosedImpression | None:
        impression = self.open.get(id)
        if impression is None:
            return None
        outcome = self._outcome(id, impression, event) if impression.has_feedback else None
        with self._counting:
            if isinstance(outcome, ListOutcome):
                self.order.close(impression.number, outcome)
                self.tally.learned += 1
            else:  # no list waits for it any more
                self.order.drop(impression.number)
                self.tally.no_feedback += outcome is None
                self.tally.failed += outcome is not None
            votes = tuple(self._count(each) for each in self.order.ready())
        del self.open[id]  # last: if the store fails before, the event can be applied again
        first = 1.0 / (impression.clicks[0] + 1) if impression.clicks else 0.0
        kind: Outcome = "no_feedback" if outcome is None else "failed" if isinstance(outcome, str) else "learned"
        failure = outcome if isinstance(outcome, str) else None
        return ClosedImpression(id, kind, 0.0, len(impression.clicks), first, failure, votes)

    def _outcome(self, id: str, impression: OpenImpression, event: Event) -> ListOutcome | str:
        """Return what the clicks on a list say, or why that is not known."""
        try:
            self._check_failure(event)
            found = self._fetch(id, impression.number)
            if found is None:
                raise LookupError("its lists are gone")
            stored, lists = found
            made, _ = self.definition.merge(id, lists, len(stored.order))
            if made.ranking.tolist() != stored.order:
                raise LookupError("it cannot be made again, such as after an update of a library")
            gains = feedback_on(impression, len(stored.order)).gains
            preferences = self.definition.preferences(id, made, gains)
        except StorageFailure:
            raise
        except Exception as error:
            return f"{self.name!r} could not count the list {id!r}: {error}"
        later = preferences[np.triu_indices(len(preferences), 1)]
        decided = later.tolist() if (np.abs(later) > ROUNDING).any() else []
        return ListOutcome(impression.time, impression.user, bool(impression.clicks), decided)

    def _count(self, outcome: ListOutcome) -> str:
        """Count a list whose turn has come, and return how; a user has one vote a day."""
        if outcome.preferences and outcome.user and not self._voters.admit(outcome.user, outcome.time):
            self._repeated += 1
            return "repeated"
        n = len(self._counts.wins)
        table = np.zeros((n, n))
        if outcome.preferences:
            table[np.triu_indices(n, 1)] = outcome.preferences
            self._decisive += 1
            self._anonymous += not outcome.user
        self._counts.add(table - table.T, outcome.clicked)
        self._counted = outcome.time
        self._history.add(self._counts.impressions, self._counts.wins)
        if len(self._times) < len(self._history.impressions):
            self._times.append(outcome.time)
        return "decisive" if outcome.preferences else "tie" if outcome.clicked else "no_click"

    @property
    def status(self) -> ExperimentStatus:
        """How far the experiment has come."""
        with self._counting:
            tally = ClosedTally(*msgspec.structs.astuple(self.tally))
            head = (self.number, tally, len(self.open), self.order.waiting)
            voted = (self._repeated, self._decisive, self._anonymous)
            past = self._history.to_dict(), self._times.copy()
            return ExperimentStatus(*head, *voted, self._counts.to_dict(), *past, self.stopped, self._counted)

    def checkpoint(self) -> bytes:
        """Return what is needed to continue from here; equal machines give equal bytes."""
        voters = self._voters.day, self._voters.hashes
        return log.pack(_Checkpoint(self.status, self.open, self.order.lists, voters))

    def restore(self, body: bytes, queries: Memory | None = None) -> None:
        """Continue from a checkpoint."""
        found, n = log.unpack(body, _Checkpoint), len(self.definition.spec.all_systems)
        status = found.status
        self.number, self.tally, self.open, self.stopped = status.number, status.closed, found.open, status.stopped
        self.order, self._voters = InOrder(found.order), Voters(*found.voters)
        self._counts, self._history = Tally.from_dict(status.counts, n), WinHistory.from_dict(status.history, n)
        self._times, self._repeated = list(status.times), status.repeated
        self._decisive, self._anonymous, self._counted = status.decisive, status.anonymous, status.counted

    def equals(self, body: bytes) -> bool:
        """Whether a checkpoint is of this machine."""
        return log.unpack(self.checkpoint(), _Checkpoint) == log.unpack(body, _Checkpoint)

    @staticmethod
    def needed(checkpoint: bytes) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is needed to continue from a checkpoint: numbers of open lists; there are no versions."""
        found = log.unpack(checkpoint, _Checkpoint)
        return frozenset(impression.number for impression in found.open.values()), frozenset()
