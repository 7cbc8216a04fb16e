"""Applies the events of a ranker, one by one; the result, live, after a restart or in a replay, depends on the events only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
import numpy as np

from duelrank.algorithms.remembered import counted
from duelrank.core.errors import DuelrankError, InvalidRecipe, StorageFailure, StoreCorrupt
from duelrank.core.registry import Part
from duelrank.core.types import Features, Feedback, Impression, Memory, State
from duelrank.evidence import Guard, GuardSpec, InOrder, Voters
from duelrank.evidence.guard import Outcome as GuardOutcome
from duelrank.evidence.guard import Vote, outcome_of
from duelrank.kernels.random import derive
from duelrank.placing import free_above
from duelrank.service import log
from duelrank.service.definition import (
    BASELINE,
    CLICK,
    GREEDY,
    GUARD,
    LIST_KINDS,
    OLD,
    Definition,
    Outcome,
    RankerSpec,
    normalized,
    unpack_teams,
)
from duelrank.service.history import HistoryState, Recorder, StepEnd
from duelrank.storage import Event

#: Returns the body of an impression and its features, by its id and its number; None if they are gone.
FetchImpression: TypeAlias = Callable[[str, int], tuple[log.StoredImpression, Features] | None]
#: Returns the features that are attached to the event of a number; None if they are gone.
FetchFeatures: TypeAlias = Callable[[int], Features | None]

#: The number of states of earlier versions that are held in memory if they can be loaded again.
MAX_STATES = 256
#: A process may serve a version for a while after a newer one was published. Impressions of a version that is older by more than
#: this number of versions are not learned from, so that it is certain which states may be needed.
VERSION_WINDOW = 16
#: The maximum number of labelled versions of a ranker; a label protects its version from removal.
MAX_LABELS = 20


# The state of a machine. These structs are parts of checkpoints: their fields are only appended, with defaults.


class OpenImpression(msgspec.Struct, array_like=True, gc=False):
    """An impression that is still open: its number in the log, and the feedback so far."""

    number: int
    time: float
    version: int
    list_kind: int
    clicks: list[int]
    examined: int | None
    has_feedback: bool
    teams: bytes = b""
    user: bytes = b""
    length: int = 0
    weights: dict[int, float] = {}  # of clicked positions whose weight is not 1
    paged: bool = False  # whether only the first `length` positions were shown
    removed: list[int] = []  # positions of documents that were not shown

    def add_action(self, places: list[int], weight: float) -> None:
        """Count an action of this weight at some places; the heaviest action at a place counts."""
        known = set(self.clicks)
        for place in places:
            if place not in known or weight > self.weights.get(place, 1.0):
                self.weights = {**self.weights, place: weight}
                if weight == 1.0:
                    del self.weights[place]
        self.clicks = sorted(known.union(places))

    def shown(self, length: int) -> list[int] | None:
        """Return which of the positions of a list were shown, None for all."""
        if not (self.paged or self.removed):
            return None
        gone = set(self.removed).difference(self.clicks)
        return [place for place in range(min(self.length, length) if self.paged else length) if place not in gone]


class ClosedGuardList(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A closed guard list: its outcome, the hash of its user, the time at which the user votes, and the version that made it."""

    outcome: GuardOutcome
    user: bytes
    time: float
    version: int


class Tally(msgspec.Struct, array_like=True, gc=False):
    """Counts of impressions, and of closed ones by their outcome.

    ``late`` counts feedback events that arrived after their impression was closed, ``backfilled`` the logged lists of other systems
    that were learned from, and ``unused`` those that arrived too late for that. ``skipped_by_reason`` is replaced, never changed.
    """

    impressions: int = 0
    learned: int = 0
    skipped: int = 0
    failed: int = 0
    late: int = 0
    no_feedback: int = 0
    backfilled: int = 0
    unused: int = 0
    skipped_by_reason: dict[str, int] = {}

    def skip(self, reason: str) -> None:
        """Count the reason why a closed list was not learned from."""
        self.skipped_by_reason = {**self.skipped_by_reason, reason: self.skipped_by_reason.get(reason, 0) + 1}


class Status(msgspec.Struct, frozen=True, array_like=True):
    """How far a ranker has come at an event; the leader saves it for followers."""

    number: int
    tally: Tally
    open: int
    updates: int
    guard: Guard | None = None
    labels: dict[int, str] = {}
    imitated: int = 0
    waiting: int = 0


class StoredWatch(msgspec.Struct, array_like=True):
    """The guard of a ranker in a checkpoint."""

    guard: Guard
    floor: int
    due_since: int
    proven: tuple[int, bytes] | None
    voters: tuple[int, bytes]


class _Checkpoint(msgspec.Struct, array_like=True):
    number: int
    version: int
    changed: bool
    frozen: bool
    tally: Tally
    state: bytes
    served: bytes
    open: dict[str, OpenImpression]
    pin: tuple[int, bytes] | None = None
    spec: log.StoredSpec | None = None
    floor: int = 0
    watch: StoredWatch | None = None
    history: HistoryState | None = None
    logged: bytes | None = None
    labels: dict[int, str] = {}
    imitated: int = 0
    voters: tuple[int, bytes] | None = None
    order: dict[int, ClosedGuardList | None] = {}

    def forget_history(self) -> None:
        """Remove what only the history needs, which the oldest formats do not have."""
        self.history = None
        for impression in self.open.values():
            impression.length = 0
            impression.list_kind = GREEDY if impression.list_kind == OLD else impression.list_kind


@dataclass(frozen=True, slots=True)
class ClosedImpression:
    """A closed impression: its outcome, the distance by which the weights moved, its clicks, and the reason of a failure.

    ``votes`` are the outcomes of the guard lists, or of the lists of an experiment, that this event let count; ``skipped`` is why
    the ranker did not learn from the list, "" if it did or if there was no feedback.
    """

    id: str
    outcome: Outcome
    norm: float
    clicks: int
    reciprocal_rank: float
    failure: str | None = None
    votes: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class LearnedStep:
    """An impression that was learned from, and the states that are needed to learn from it again.

    ``made_by`` is the state that made the list, ``before`` the one that learned from it.
    """

    id: str
    impression: OpenImpression
    definition: Definition
    made_by: State | None
    before: State


def feedback_on(impression: OpenImpression, length: int) -> Feedback:
    """Return the feedback on an impression of ``length`` documents, as algorithms take it."""
    clicks = np.zeros(length, np.bool_)
    clicks[impression.clicks] = True
    weights = None
    if impression.weights:
        weights = clicks.astype(np.float64)
        for place, weight in impression.weights.items():
            weights[place] = weight
    examined = impression.examined
    if examined is not None:
        examined = max(examined, *(each + 1 for each in impression.clicks), 0)
    return Feedback.trusted(clicks, examined, weights)


def _feedback_on_shown(impression: OpenImpression, length: int, shown: list[int]) -> Feedback:
    """Return the feedback on those positions of a list that were shown."""
    whole, rows = feedback_on(impression, length), np.array(shown, np.int64)
    examined = None if whole.examined is None else int(np.count_nonzero(rows < whole.examined))
    weights = None if whole.weights is None else whole.weights[rows]
    return Feedback.trusted(whole.clicks[rows], examined, weights)


def learned_list(
    definition: Definition,
    made_by: State,
    id: str,
    found: tuple[log.StoredImpression, Features],
    impression: OpenImpression,
    remembered: bool = True,
) -> tuple[Impression, Feedback]:
    """Return the part of a list that was shown, as its version made it, and the feedback on it.

    An algorithm that must know how a whole list was made learns from the whole list.
    """
    stored, raw = found
    length = len(stored.order)
    if (shown := impression.shown(length)) is not None:
        with suppress(InvalidRecipe):
            rebuilt = definition.rebuild(made_by, id, stored.only(shown), raw, remembered)
            return rebuilt, _feedback_on_shown(impression, length, shown)
    return definition.rebuild(made_by, id, stored, raw, remembered), feedback_on(impression, length)


class Watch:
    """The guard of one ranker, its voters, and the version to roll back to; without settings it does nothing.

    It depends on the events only, as the machine does.

    Parameters
    ----------
    spec
        Settings of the guard.
    floor
        Guard lists of versions up to this one are not counted.
    due_since
        Number of the event with which an action became due; actions that became due earlier are not this guard's.
    """

    def __init__(self, spec: GuardSpec | None, floor: int = 0, due_since: int = 0) -> None:
        self.guard = None if spec is None else Guard.begin(spec)
        self.floor, self.due_since = floor, due_since
        self.proven: tuple[int, State] | None = None  # the newest version with proved gain, to roll back to
        self._voters = Voters()

    @property
    def stepped_back(self) -> bool:
        """Whether an alarm has stopped learning."""
        return self.guard is not None and self.guard.stepped_back

    def change(self, spec: GuardSpec) -> None:
        """Change the settings of the guard."""
        assert self.guard is not None
        self.guard = self.guard.changed(spec)
        if spec.on_alarm != "rollback":
            self.proven = None

    def rolled_back(self, version: int) -> None:
        """Start again after an operator's rollback: lists of versions up to this one are not counted."""
        if self.guard is not None:
            self.guard, self.floor, self.proven = self.guard.restarted(), version, None

    def carry(self, carried: Callable[[State], State]) -> None:
        """Convert the version to roll back to, after a change of features."""
        if self.proven is not None:
            self.proven = self.proven[0], carried(self.proven[1])

    def vote(self, closed: ClosedGuardList, state: State | None, number: int) -> Vote | None:
        """Count a closed guard list, and return how; a user has one vote a day.

        Parameters
        ----------
        closed
            The list.
        state
            State of the version that made the list; needed only for a guard that may roll back, None if it cannot roll back to it.
        number
            Number of the event at which it is counted.
        """
        if self.guard is None:
            return None
        vote: Vote = closed.outcome
        if vote in ("win", "loss") and closed.user and not self._voters.admit(closed.user, closed.time):
            vote = "repeated"
        before, self.guard = self.guard, self.guard.count(vote, anonymous=not closed.user)
        if self.guard.counts.ignored > before.counts.ignored:
            vote = "ignored"
        if self.guard.due != before.due:
            self.due_since = number
        if state is not None and self.guard.has_fresh_proof:
            self.proven, self.guard = (closed.version, state), self.guard.proved()
        return vote

    def due(self) -> tuple[str, log.Control] | None:
        """Return the key and body of the event of the action that is due; None if none is."""
        reason = None if self.guard is None else self.guard.reason
        if reason is None:
            return None
        evidence = log.Evidence(reason.statistic, reason.wins, reason.losses)
        return f"{reason.due}/{self.due_since}", log.Control(reason.due, evidence=evidence)

    def act(self, action: str, due: int, time: float, version: int) -> State | None:
        """Perform the action that is due, unless an operator has made it obsolete; return the state to roll back to, if any.

        Parameters
        ----------
        action
            "alarm" or "promote".
        due
            Number of the event with which it became due.
        time, version
            Time of the action, and the version that is served.
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
        """End an alarm, and start again with the versions after this one."""
        if self.guard is not None and (after := self.guard.resumed()) is not self.guard:
            self.guard, self.floor = after, version

    def stored(self) -> StoredWatch | None:
        """Return the stored form."""
        if self.guard is None:
            return None
        proven = None if self.proven is None else (self.proven[0], log.pack_state(self.proven[1]))
        return StoredWatch(self.guard, self.floor, self.due_since, proven, (self._voters.day, self._voters.hashes))

    @classmethod
    def restored(cls, stored: StoredWatch | None, recipe: Part) -> Watch:
        """Return the watch of a stored form."""
        watch = cls(None)
        if stored is not None:
            watch.guard, watch.floor, watch.due_since = stored.guard, stored.floor, stored.due_since
            watch.proven = (
                None if stored.proven is None else (stored.proven[0], log.unpack_state(stored.proven[1], recipe))
            )
            watch._voters = Voters(*stored.voters)
        return watch


class EventMachine(ABC):
    """Applies the events of one ranker or experiment: what both have in common, open impressions and their feedback.

    Parameters
    ----------
    number
        Number of the event that created it.
    """

    def __init__(self, number: int) -> None:
        #: Number of the last event that was applied.
        self.number = number
        self.tally, self.open = Tally(), dict[str, OpenImpression]()
        #: Outcomes by the number of a list, until they are counted: in the order of showing, each when all before it are closed.
        self.order: InOrder[int, Any] = InOrder()
        #: Numbers of the next events that have failed before; `new_events` sets it.
        self.failures: Collection[int] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the ranker or experiment."""

    @property
    @abstractmethod
    def close_after(self) -> float:
        """Seconds after which an open impression is closed."""

    @property
    @abstractmethod
    def actions(self) -> Mapping[str, float]:
        """Weights of actions by name."""

    @property
    def may_fail(self) -> Collection[str]:
        """The kinds of events that may fail."""
        return (log.CLOSED,)

    @property
    @abstractmethod
    def status(self) -> msgspec.Struct:
        """How far it has come, for other processes."""

    def apply(self, event: Event) -> ClosedImpression | None:
        """Apply an event; events up to `number` are ignored."""
        if event.number <= self.number:
            return None
        closed = None
        if event.kind == log.FEEDBACK:
            self._apply_feedback(log.unpack(event.body, log.StoredFeedback))
        elif event.kind == log.CLOSED:
            closed = self._apply_closed(log.unpack(event.body, str), event)
        elif event.kind != log.FAILED:  # `failures` has these
            closed = self._apply_other(event)
        self.number = event.number
        return closed

    @abstractmethod
    def _apply_closed(self, id: str, event: Event) -> ClosedImpression | None:
        """Count a closed impression, and learn from it."""

    @abstractmethod
    def _apply_other(self, event: Event) -> ClosedImpression | None:
        """Apply an event of another kind; raise if the kind is not known."""

    @abstractmethod
    def checkpoint(self) -> bytes:
        """Return what is needed to continue from here; equal machines give equal bytes."""

    @abstractmethod
    def restore(self, body: bytes, queries: Memory | None = None) -> None:
        """Continue from a checkpoint, and with the memory of queries, which it does not have."""

    @abstractmethod
    def equals(self, body: bytes) -> bool:
        """Whether a checkpoint is of this machine."""

    @staticmethod
    @abstractmethod
    def needed(checkpoint: bytes) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is needed to continue from a checkpoint: numbers of open impressions, and versions."""

    def needs(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is needed to continue from here: numbers of open impressions, and versions."""
        return frozenset(impression.number for impression in self.open.values()), frozenset()

    def has_feedback(self, id: str) -> bool:
        """Whether an impression is open and has feedback."""
        return (impression := self.open.get(id)) is not None and impression.has_feedback

    def _apply_feedback(self, feedback: log.StoredFeedback) -> None:
        impression = self.open.get(feedback.impression)
        if impression is None:
            self.tally.late += 1
            return
        impression.has_feedback = True
        weight = self.actions.get(feedback.action or CLICK, 0.0)
        if feedback.clicks and weight > 0.0:
            impression.add_action(feedback.clicks, weight)
        if feedback.examined is not None:
            impression.examined = max(feedback.examined, impression.examined or 0)
        impression.user = impression.user or feedback.user
        if feedback.removed:
            impression.removed = sorted({*impression.removed, *feedback.removed})
        if impression.paged:  # what was clicked or looked at was shown, even if its page is not known
            shown = (each + 1 for each in feedback.clicks)
            impression.length = max(impression.length, feedback.seen, feedback.examined or 0, *shown)

    @staticmethod
    def _unknown_kind(event: Event) -> StoreCorrupt:
        return StoreCorrupt(
            f"event {event.number} is of an unknown kind, {event.kind!r}; a later version of duelrank may have written it"
        )

    def _check_failure(self, event: Event) -> None:
        if event.number in self.failures:
            raise LookupError("learning from it has failed before, according to the event log")


class Machine(EventMachine):
    """Applies the events of one ranker, in the order of their numbers; it uses neither a clock nor other sources of randomness.

    Two machines that have applied the same events are equal, bit for bit. In addition to the events it needs the impressions
    (bodies and features of earlier events) and the states of earlier versions (which follow from earlier events).

    Parameters
    ----------
    definition
        Definition of the ranker at its creation.
    fetch_impression
        Returns an impression and its features.
    load_state
        Returns the state of an earlier version, None if it is gone; without it, all states that may be needed are held in memory.
    max_states
        Number of states of earlier versions in memory if they can be loaded again; None for all that may be needed.
    fetch_features
        Returns the features of a logged list of another system.
    """

    def __init__(
        self,
        definition: Definition,
        fetch_impression: FetchImpression,
        load_state: Callable[[int], State | None] | None = None,
        max_states: int | None = MAX_STATES,
        fetch_features: FetchFeatures = lambda number: None,
    ) -> None:
        self._fetch_impression, self._fetch_features = fetch_impression, fetch_features
        self._load_state, self._max_states = load_state, max_states
        super().__init__(definition.number)
        self.definition = self._created = definition
        self.version = 1
        self.state = self.served = definition.start
        self.changed, self.frozen = False, definition.spec.mode == "frozen"
        self.pin: tuple[int, State] | None = None  # the version that a shadow serves, instead of the client's order
        self.floor = 0  # impressions of versions up to this one have other features than the ranker has now
        self.labels: dict[int, str] = {}  # of versions that an operator keeps; replaced, never changed
        self.watch, self.history = Watch(definition.spec.guard), Recorder(definition.number)
        self.logged: State | None = None  # learned from lists of other systems, until the first live one
        self.imitated = 0  # lists of a log, or in the client's order, that were learned from while it imitates
        self._voters = Voters()  # who has taught the memory of a query today
        self.order: InOrder[int, ClosedGuardList] = InOrder()
        #: How often an operator has removed something from the memory of queries since this machine began.
        self.forgotten = 0
        self.last_step: LearnedStep | None = None  # for `Service.last_step`; learning does not depend on it
        self._states, self.references = dict[int, State](), Counter[int]()  # references: open impressions by version

    @property
    def name(self) -> str:
        """The name of the ranker."""
        return self.definition.spec.name

    @property
    def close_after(self) -> float:
        """Seconds after which an open impression is closed."""
        return self.definition.spec.close_after

    @property
    def actions(self) -> Mapping[str, float]:
        """Weights of actions by name."""
        return self.definition.spec.actions

    @property
    def may_fail(self) -> Collection[str]:
        """The kinds of events from which learning may fail."""
        return (log.CLOSED, log.LOGGED, *((log.IMPRESSION,) if self.definition.spec.imitate else ()))

    def apply(self, event: Event) -> ClosedImpression | None:
        """Apply an event; events up to `number` are ignored."""
        if event.number <= self.number:
            return None
        self.history.begin_event(event.time, self.step_end)
        closed = super().apply(event)
        self.history.count_event()
        return closed

    def _apply_other(self, event: Event) -> ClosedImpression | None:
        if event.kind == log.IMPRESSION:
            return self._apply_impression(event)
        if event.kind == log.LOGGED:
            return self._apply_logged(log.unpack(event.body, log.StoredLog), event)
        if event.kind == log.PUBLISHED:
            self._apply_published(log.unpack(event.body, log.Published))
        elif event.kind == log.PAGE:
            self._apply_page(log.unpack(event.body, log.StoredPage))
        elif event.kind == log.CONTROL:
            self._apply_control(log.unpack(event.body, log.Control), event)
        else:
            raise self._unknown_kind(event)
        return None

    def _apply_impression(self, event: Event) -> ClosedImpression | None:
        stored = log.unpack(event.body, log.StoredImpression)
        kind = stored.list_kind if stored.version > max(self.floor, self.version - VERSION_WINDOW - 1) else OLD
        if kind == GUARD and stored.version <= self.watch.floor:
            kind = OLD
        failed = self._imitate(event) if kind == BASELINE and self.imitates and not self.frozen else None
        if kind == GUARD and stored.in_order:
            self.order.show(event.number)
        head = (event.number, event.time, stored.version, kind)
        first, paged = len(stored.order), stored.page > 0
        if paged:
            first = min(first, free_above(stored.placed, stored.page))
        self.open[event.key] = OpenImpression(*head, [], None, False, stored.teams, b"", first, paged=paged)
        self.history.made(stored.list_kind, stored.missing, stored.out_of_range)
        self.references[stored.version] += 1
        self.tally.impressions += 1
        return failed

    def _apply_page(self, page: log.StoredPage) -> None:
        if (impression := self.open.get(page.impression)) is not None:
            impression.length = max(impression.length, page.shown)

    def _apply_closed(self, id: str, event: Event) -> ClosedImpression | None:
        impression = self.open.get(id)
        if impression is None:
            return None
        states = self._states_of_votes(impression)  # first: if the store fails, nothing has changed
        outcome: Outcome
        norm, failure, reason = 0.0, None, ""
        if not impression.has_feedback:
            outcome = "no_feedback"  # it may never have been seen
        elif reason := self._reason_to_skip(impression.list_kind):
            outcome = "skipped"
        else:
            outcome, norm, failure = self._learn(id, impression, event)
        votes = self._count_votes(impression, event, states)
        setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
        if reason:
            self.tally.skip(reason)
        self.history.closed(impression.list_kind, impression.length, impression.clicks, outcome)
        del self.open[id]  # last: if the store fails before, the event can be applied again
        if impression.list_kind != GUARD:  # the version of a guard list is needed until it is counted
            self._release(impression.version)
        first = 1.0 / (impression.clicks[0] + 1) if impression.clicks else 0.0
        return ClosedImpression(id, outcome, norm, len(impression.clicks), first, failure, votes, reason)

    def _reason_to_skip(self, list_kind: int) -> str:
        """Return why a list of this kind is not learned from now, "" if it is."""
        if list_kind in (GUARD, BASELINE, OLD):
            return LIST_KINDS[list_kind]
        if self.frozen:
            return "frozen"
        if self.watch.stepped_back:
            return "alarm"
        return LIST_KINDS[GREEDY] if list_kind == GREEDY else ""

    def _learn(self, id: str, impression: OpenImpression, event: Event) -> tuple[Outcome, float, str | None]:
        """Learn from an impression; a failure is counted and changes nothing, here and in every replay."""
        try:
            self._check_failure(event)
            after = self._learned(id, impression, event)
        except StorageFailure:
            raise
        except Exception as error:
            return "failed", 0.0, f"{self.definition.spec.name!r} could not learn from impression {id!r}: {error}"
        if after is self.state:
            return "no_feedback", 0.0, None
        norm, self.logged = self.definition.distance(self.state, after), None
        self.last_step = LearnedStep(id, impression, self.definition, self.state_of(impression.version), self.state)
        self.state, self.changed = after, True
        return "learned", norm, None

    def _learned(self, id: str, impression: OpenImpression, event: Event) -> State:
        found, made_by = self._fetch_impression(id, impression.number), self.state_of(impression.version)
        if found is None or made_by is None:
            raise LookupError("its features are gone" if found is None else f"version {impression.version} is gone")
        stored, _ = found
        voter = self._voter(stored.query, impression)
        new = not self._voters.has_voted(voter, event.time)
        if impression.shown(len(stored.order)) == []:
            return self.state  # nothing that a ranker has ordered was shown
        rebuilt, feedback = learned_list(self.definition, made_by, id, found, impression, new)
        fresh = derive(self.definition.learn_key, self.state.step)
        after = _checked(self.definition.algorithm.learn(self.state, rebuilt, feedback, fresh))
        if voter and new:  # only now: a failure changes nothing
            self._voters.admit(voter, event.time)
        return after

    def _voter(self, query: str, impression: OpenImpression) -> bytes:
        """Return who teaches the memory of a query, which a user does once a day; b"" if nobody is named, or nothing remembered."""
        if self.definition.remember is None or not query or not impression.user:
            return b""
        return blake2b(query.encode(), key=impression.user, digest_size=8).digest()

    def _apply_logged(self, body: log.StoredLog, event: Event) -> ClosedImpression | None:
        """Learn from a logged list of another system, only before the first live one."""
        live = self.state.step > 0
        if live or self.frozen or self.watch.stepped_back or body.names != self.definition.names_digest:
            self.tally.unused += 1  # it was accepted before that was the case
            return None
        failed = self._learn_from_other(event, body)
        self.tally.backfilled += failed is None
        return failed

    def _imitate(self, event: Event) -> ClosedImpression | None:
        """Learn the order of a list that was shown as the client sent it; a list that fails is counted, too, so that this ends."""
        failed = self._learn_from_other(event, None)
        self.imitated += failed is not None
        return failed

    def _learn_from_other(self, event: Event, body: log.StoredLog | None) -> ClosedImpression | None:
        """Learn from a list of another system: from its clicks in a log, or without a body, from its order."""
        try:
            self._check_failure(event)
            raw = self._features_of(event)
            if raw is None:
                raise LookupError("its features are gone")
            self.logged, self.state = self._learned_from_other(body, raw)
        except StorageFailure:
            raise
        except Exception as error:
            self.tally.failed += 1
            what = "the order of the list" if body is None else "the logged list"
            failure = f"{self.definition.spec.name!r} could not learn from {what} {event.key!r}: {error}"
            return ClosedImpression(event.key, "failed", 0.0, 0, 0.0, failure)
        self.imitated += self.imitates
        self.changed = True
        return None

    def _features_of(self, event: Event) -> Features | None:
        if event.kind == log.LOGGED:
            return self._fetch_features(event.number)
        found = self._fetch_impression(event.key, event.number)
        return None if found is None else found[1]

    def _learned_from_other(self, body: log.StoredLog | None, raw: Features) -> tuple[State, State]:
        """Return the state of the log learner after a list, and the state of the ranker that takes it over."""
        definition, teacher = self.definition, self.definition.log_learner
        before = teacher.start(self.state) if self.logged is None else self.logged
        query, fresh = definition.query(raw), derive(definition.log_key, before.step)
        if body is None:
            logged = teacher.imitate(before, query, np.arange(len(raw)), fresh)
            return logged, _checked(teacher.handed_over(self.state, logged))
        shown, feedback = np.arange(body.shown), feedback_on(self._logged_actions(body), body.shown)
        logged = teacher.learn(before, query, shown, feedback, fresh)
        after = _checked(teacher.handed_over(self.state, logged))
        unshown = ("",) * (len(raw) - body.shown)
        named = definition.query(raw, id=body.query, documents=(*body.ids, *unshown) if body.ids else ())
        return logged, counted(definition.algorithm, after, named, shown, feedback)

    def _logged_actions(self, body: log.StoredLog) -> OpenImpression:
        seen = OpenImpression(0, 0.0, 0, OLD, [], body.examined, True)
        for action, places in body.actions.items():
            if (weight := self.definition.spec.actions.get(action, 0.0)) > 0.0:
                seen.add_action(places, weight)
        return seen

    @property
    def imitates(self) -> bool:
        """Whether it shows the client's order and learns to imitate it."""
        return self.definition.spec.imitates(self.imitated, self.tally.learned)

    def step_end(self) -> StepEnd:
        """Return the state of the ranker for its history."""
        guard, found = self.guard, None
        if guard is not None:
            share = 0.0 if self.imitates else guard.learned_share
            found = (guard.period.wins, guard.period.losses, guard.detector.statistic, share)
        # Between a change of features and the next version, the served version has other features than the definition.
        weights = b"" if self.floor == self.version else self.definition.rises(self.served)
        return StepEnd(self.version, weights, found)

    @property
    def guard(self) -> Guard | None:
        """The guard, None if there is none."""
        return self.watch.guard

    @property
    def status(self) -> Status:
        """How far the ranker has come."""
        tally = Tally(*msgspec.structs.astuple(self.tally))
        rest = (self.guard, self.labels, self.imitated, self.order.waiting)
        return Status(self.number, tally, len(self.open), self.state.updates, *rest)

    def _states_of_votes(self, impression: OpenImpression) -> dict[int, State | None]:
        """Return the states of the versions that made the lists that count when this one is closed, if the guard may roll back."""
        if self.guard is None or self.guard.spec.on_alarm != "rollback":
            return {}
        versions = {each.version for each in self.order.waiting_for(impression.number)}
        if impression.list_kind == GUARD:
            versions.add(impression.version)
        return {version: self.state_of(version) for version in versions if version > self.floor}

    def _count_votes(
        self, impression: OpenImpression, event: Event, states: Mapping[int, State | None]
    ) -> tuple[str, ...]:
        """Note how a closed list ends for the guard; count the guard lists whose turn has come, and return their votes."""
        if impression.list_kind == GUARD:
            outcome = outcome_of(unpack_teams(impression.teams), feedback_on(impression, len(impression.teams)).gains)
            time = impression.time if impression.number in self.order else event.time
            closed = ClosedGuardList(outcome, impression.user, time, impression.version)
            self.order.close(impression.number, closed)
        else:
            self.order.drop(impression.number)
        votes = []
        for each in self.order.ready():
            vote = self.watch.vote(each, states.get(each.version), event.number)
            self._release(each.version)
            if vote is not None:
                self.history.voted(vote)
                votes.append(vote)
        return tuple(votes)

    def _apply_published(self, published: log.Published) -> None:
        self._hold(self.version, self.served)
        served = self.definition.for_ranking(self.state) if published.for_ranking else self.state
        self.version, self.served, self.changed = published.version, served, False
        self._discard(self.version - VERSION_WINDOW - 1)

    def _apply_control(self, control: log.Control, event: Event) -> None:
        before = (self.state, self.pin, self.frozen, self.definition, self.guard, self.labels)
        if control.action in ("rollback", "pin"):
            self._use_version(control)
        elif control.action == "unpin":
            self.pin = None
        elif control.action in ("freeze", "resume"):
            self.frozen = control.action == "freeze"
            if control.action == "resume":
                self.watch.resume(self.version)
                self._forget_votes()
        elif control.action in ("alarm", "promote"):
            due = int(event.key.rpartition("/")[2])
            if (back := self.watch.act(control.action, due, event.time, self.version)) is not None:
                self.state, self.logged = self.definition.roll_back(self.state, back), None
                self._forget_votes()
        elif control.action == "change" and control.change is not None:
            with suppress(DuelrankError):  # of two simultaneous changes that conflict, the second has no effect
                definition = self.definition.changed(control.change.read())
                self._redefine(definition, _state_in(control, definition))
        elif control.action == "label" and control.version is not None:
            self._label(control.version, control.label)
        elif control.action == "forget" and (remember := self.definition.remember) is not None:
            known = remember.without(self.remembered, control.query, control.document)
            self.state, self.forgotten = with_remembered(self.state, known), self.forgotten + 1
        self.changed = self.changed or control.action not in ("start", "label")
        after = (self.state, self.pin, self.frozen, self.definition, self.guard, self.labels)
        if control.action == "start" or any(one is not other for one, other in zip(before, after, strict=True)):
            self.history.mark(event.time, control.action, _description(control), self.version)

    def _use_version(self, control: log.Control) -> None:
        """Roll back to the state of a version, or pin it, if it still fits the features of the ranker."""
        definition = self.definition
        if control.change is not None:
            try:
                definition = definition.changed(control.change.read())
            except DuelrankError:  # the features were changed meanwhile
                return
        old, same = _state_in(control, definition), definition.representation == self.definition.representation
        if old is None:
            return
        if control.action == "rollback":
            if same:
                self.state, self.logged = self.definition.roll_back(self.state, old), None
            else:
                self._redefine(definition, old)
            self.watch.rolled_back(self.version)
            self._forget_votes()
        elif control.version is not None and same:
            self.pin = control.version, old

    def _label(self, version: int, label: str) -> None:
        """Set or remove the label of a version; one beyond the limit, which was sent together with others, is ignored."""
        others = {number: known for number, known in self.labels.items() if number != version}
        if label and len(others) < MAX_LABELS:
            self.labels = {**others, version: label}
        elif not label and version in self.labels:
            self.labels = others

    def _forget_votes(self) -> None:
        """Exclude guard lists that were made before the guard has started again, unless it has not."""
        if self.watch.floor < self.version:
            return
        for closed in self.order.lists.values():
            if closed is not None:
                self._release(closed.version)
        self.order = InOrder()
        for impression in self.open.values():
            if impression.list_kind == GUARD and impression.version <= self.watch.floor:
                impression.list_kind = OLD

    def _redefine(self, definition: Definition, state: State | None) -> None:
        """Continue with another definition; open impressions with other features or columns are not learned from.

        ``state`` is that of the ranker if the representation changes; without it such a change has no effect.
        """
        same_features = definition.spec.features == self.definition.spec.features
        represented = same_features and definition.representation != self.definition.representation
        if represented and state is None:
            return
        before, self.definition = self.definition, definition
        if definition.spec.mode != before.spec.mode:
            self.frozen = definition.spec.mode == "frozen"
            self.pin = self.pin if definition.spec.mode == "shadow" else None
        if not same_features:
            names = before.spec.features
            self.state, self.logged = definition.carry(self.state, names), None
            self.pin = None if self.pin is None else (self.pin[0], definition.carry(self.pin[1], names))
            self.watch.carry(lambda state: definition.carry(state, names))
        elif represented and state is not None:
            memory = definition.for_learning(state).memory  # that of a version lacks what only learning needs
            after = State(state.weights, self.state.step, self.state.updates, memory)
            self.state = definition.with_lasting(self.state, after)
            self.logged = self.pin = None
            self.watch.rolled_back(self.version)
            self._forget_votes()
        if represented or not same_features:
            self.floor = self.version
            for impression in self.open.values():
                impression.list_kind = OLD
        if definition.spec.guard != before.spec.guard:
            self._change_guard(definition.spec.guard)

    def _change_guard(self, spec: GuardSpec | None) -> None:
        """Add, change or remove the guard; a new guard does not count lists of versions up to this one."""
        if spec is None:
            self.watch = Watch(None)
        elif self.guard is None:
            self.watch = Watch(spec, self.version, self.number)
            self._forget_votes()
        else:
            self.watch.change(spec)

    def state_of(self, version: int) -> State | None:
        """Return the state of a version that made open impressions."""
        if version == self.version:
            return self.served
        found = self._states.get(version)
        if found is None and version == 1:
            return self._created.start
        if found is None and self._load_state is not None:
            found = self._load_state(version)
            if found is not None:
                self._hold(version, found)
        return found

    def _hold(self, version: int, state: State) -> None:
        self._states[version] = state
        if self._load_state is not None and self._max_states is not None and len(self._states) > self._max_states:
            del self._states[next(iter(self._states))]

    def _release(self, version: int) -> None:
        self.references[version] -= 1
        if not self.references[version]:
            del self.references[version]
            self._discard(version)

    def _discard(self, version: int) -> None:
        """Discard the state of a version that neither open impressions nor later ones can need."""
        if version < self.version - VERSION_WINDOW and version not in self.references:
            self._states.pop(version, None)

    def publication(self) -> log.Published:
        """Return the event that publishes the current state as a version."""
        return log.Published(self.version + 1, log.digest(self.served), for_ranking=True)

    @property
    def changed_spec(self) -> RankerSpec | None:
        """The specification, if it has changed since the ranker was created."""
        return None if self.definition is self._created else self.definition.spec

    @property
    def remembered(self) -> Memory:
        """What is remembered of queries; empty if the algorithm has no such memory."""
        found: Memory = self.state.memory.get("remember", {})
        return found

    def checkpoint(self) -> bytes:
        """Return what is needed to continue from here, without the memory of queries; equal machines give equal bytes.

        The memory of queries may be large, so it is saved by its changes (see `MemoryStore`).
        """
        states = log.pack_state(without_queries(self.state)), log.pack_state(self.served)
        pin = None if self.pin is None else (self.pin[0], log.pack_state(self.pin[1]))
        spec = None if self.changed_spec is None else log.StoredSpec.of(self.changed_spec)
        head = (self.number, self.version, self.changed, self.frozen, self.tally)
        logged = None if self.logged is None else log.pack_state(self.logged)
        parts = (*head, *states, self.open, pin, spec, self.floor)
        voters = (self._voters.day, self._voters.hashes) if len(self._voters) else None
        rest = (self.watch.stored(), self.history.state, logged, self.labels, self.imitated, voters, self.order.lists)
        return log.pack(_Checkpoint(*parts, *rest))

    def restore(self, body: bytes, queries: Memory | None = None) -> None:
        """Continue from a checkpoint, and with the memory of queries, which it does not have; raise if that is of another time."""
        found, recipe = log.unpack(body, _Checkpoint), self.definition.algorithm
        state = log.unpack_state(found.state, recipe)
        state = state if queries is None else _recalled(state, queries, found.number)
        self.number, self.version, self.changed, self.frozen = found.number, found.version, found.changed, found.frozen
        self.tally, self.open, self.floor = found.tally, found.open, found.floor
        self.labels, self.imitated = found.labels, found.imitated
        self._voters = Voters() if found.voters is None else Voters(*found.voters)
        self.definition = self._created if found.spec is None else self._created.with_spec(found.spec.read())
        self.served, self.state = log.unpack_state(found.served, recipe), state
        self.pin = None if found.pin is None else (found.pin[0], log.unpack_state(found.pin[1], recipe))
        self.watch = Watch.restored(found.watch, recipe)
        self.logged = None
        if found.logged is not None:
            self.logged = log.unpack_state(found.logged, self.definition.log_learner.algorithm)
        self.history.restore(found.history, found.number)
        self.order = InOrder(found.order)
        self.references = _references(self.open, found.order)
        self._states.clear()

    def equals(self, body: bytes) -> bool:
        """Whether a checkpoint is of this machine; the tally is not compared."""
        mine, other = log.unpack(self.checkpoint(), _Checkpoint), log.unpack(body, _Checkpoint)
        mine.tally = other.tally = Tally()
        if other.history is None or other.history.since != self.history.since:
            mine.forget_history()  # the other history began elsewhere, such as with a later version of duelrank
            other.forget_history()
        if mine.watch is not None and other.watch is not None:  # a share that the oldest formats do not have
            guard = msgspec.structs.replace(mine.watch.guard, anonymous=other.watch.guard.anonymous)
            mine.watch.guard = guard
        other.spec = None if other.spec is None else log.StoredSpec.of(normalized(other.spec.read()))
        return mine == other

    def needs(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is needed to continue from here: numbers of open impressions, and versions."""
        return _needed(self.version, self.open, self.order.lists)

    @staticmethod
    def needed(checkpoint: bytes) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is needed to continue from a checkpoint: numbers of open impressions, and versions."""
        found = log.unpack(checkpoint, _Checkpoint)
        return _needed(found.version, found.open, found.order)


def without_queries(state: State) -> State:
    """Return a state without the records of queries, which are saved by their changes."""
    known = state.memory.get("remember")
    if known is None:
        return state
    return with_remembered(state, {name: each for name, each in known.items() if not name.startswith("queries_")})


def _recalled(state: State, queries: Memory, number: int) -> State:
    """Return the state of a checkpoint with the records of its queries."""
    own: Memory = without_queries(state).memory.get("remember", {})
    if not np.array_equal(own.get("lists", ()), queries["lists"]):
        raise StoreCorrupt(f"the memory of queries does not belong to the checkpoint at event {number}")
    return with_remembered(state, {**queries, **own})


def with_remembered(state: State, known: Memory) -> State:
    """Return a state that remembers something else of queries."""
    return replace(state, memory={**state.memory, "remember": known})


def _checked(state: State) -> State:
    if not np.isfinite(state.weights).all():
        raise ArithmeticError("the weights would no longer be finite")
    return state


def _state_in(control: log.Control, definition: Definition) -> State | None:
    """Return the state in a control event as a state of a definition; None if there is none, or if it does not fit."""
    if control.state is None:
        return None
    state = log.unpack_state(control.state, definition.algorithm)
    if control.features is not None:
        state = definition.carry(state, control.features)  # they may have changed since that version, or just now
    return state if definition.fits(state) else None


def _description(control: log.Control) -> str:
    """Return the effect of a control event in a few words."""
    if control.action == "change" and control.change is not None:
        given, fit = ", ".join(control.change.read().given), control.fit
        return given if fit is None else f"{given}: {fit.share:.1%} of pairs keep their order"
    if control.action == "forget":  # without its text, which is to be forgotten
        return "a query" if control.query else "a document, in all queries" if control.document else "all queries"
    if control.action == "label":
        return f"version {control.version}: {control.label or 'no label any more'}"
    if control.version is not None:
        return f"version {control.version}"
    if control.evidence is not None:
        return f"{control.evidence.wins:,} wins, {control.evidence.losses:,} losses"
    return ""


def learned_state(checkpoint: bytes, created: Definition) -> tuple[Definition, State]:
    """Return the definition and the state in a checkpoint, with all that learning needs."""
    found = log.unpack(checkpoint, _Checkpoint)
    definition = created if found.spec is None else created.with_spec(found.spec.read())
    return definition, log.unpack_state(found.state, created.algorithm)


def history_since(checkpoint: bytes) -> int | None:
    """Return the number of the event after which the history in a checkpoint began, None if it has none."""
    found = log.unpack(checkpoint, _Checkpoint).history
    return None if found is None else found.since


def _needed(
    version: int, open: Mapping[str, OpenImpression], order: Mapping[int, ClosedGuardList | None]
) -> tuple[frozenset[int], frozenset[int]]:
    recent = range(max(1, version - VERSION_WINDOW), version + 1)
    numbers = frozenset(impression.number for impression in open.values())
    return numbers, frozenset(_references(open, order)).union(recent)


def _references(open: Mapping[str, OpenImpression], order: Mapping[int, ClosedGuardList | None]) -> Counter[int]:
    """Return the number of lists that may still need each version: open ones, and guard lists that are not counted."""
    return Counter(each.version for each in (*open.values(), *order.values()) if each is not None)
