"""What a ranker is after its events: a pure function of them, live, after a restart and in a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from duelrank.api import CLICK, Change, RankerSpec
from duelrank.core.errors import DuelrankError, StorageFailure, StoreCorrupt
from duelrank.core.types import Features, State
from duelrank.guard import Guard, GuardSpec
from duelrank.kernels.random import derive
from duelrank.serving.log.bodies import (
    CLOSED,
    CONTROL,
    EXPLORED,
    FAILED,
    FEEDBACK,
    GREEDY,
    GUARD,
    IMPRESSION,
    LOGGED,
    OLD,
    PUBLISHED,
    SHADOW,
    Control,
    Published,
    StoredFeedback,
    StoredImpression,
    StoredLog,
    digest,
    pack,
    pack_state,
    unpack,
    unpack_state,
)
from duelrank.serving.ranker.definition import Definition, settled
from duelrank.serving.ranker.history import End, HistoryState, Recorder
from duelrank.serving.ranker.steps import LearnedStep, feedback_on
from duelrank.serving.ranker.watch import Watch, Watched
from duelrank.storage import Event

__all__ = [
    "MOST_LABELS",
    "ClosedImpression",
    "Machine",
    "OpenImpression",
    "Outcome",
    "Tally",
    "history_since",
    "needed",
]

Outcome = Literal["learned", "no_feedback", "skipped", "failed"]
#: Returns the body of an impression and its features, by its id and its number; None where they are gone.
Fetch: TypeAlias = Callable[[str, int], tuple[StoredImpression, Features] | None]
#: Returns the features that belong to the event of a number; None where they are gone.
Attached: TypeAlias = Callable[[int], Features | None]

# So many states of earlier versions are held where they can be had from the store again.
MOST_STATES = 256
#: A process may serve a version for a while after a newer one was published; from impressions of one that is older than so
#: many versions nothing is learned, so that it is certain which states may be needed.
WINDOW = 16
#: Most versions of a ranker that can have a label, which keeps them.
MOST_LABELS = 20


class OpenImpression(msgspec.Struct, array_like=True, gc=False):
    """An impression that is still open: its number in the log, and what users did with it so far."""

    number: int
    time: float
    version: int
    way: int
    clicks: list[int]
    examined: int | None
    has_feedback: bool
    teams: bytes = b""
    user: bytes = b""
    length: int = 0
    weights: dict[int, float] = {}  # of clicked positions that weigh more or less than 1


class Tally(msgspec.Struct, array_like=True, gc=False):
    """How many impressions were made, and what became of the closed ones.

    ``late`` is how many feedback events came after their impression was closed, ``backfilled`` how many lists of other systems
    have taught it, and ``unused`` how many came too late for that.
    """

    impressions: int = 0
    learned: int = 0
    skipped: int = 0
    failed: int = 0
    late: int = 0
    no_feedback: int = 0
    backfilled: int = 0
    unused: int = 0


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
    spec: RankerSpec | None = None
    floor: int = 0
    watch: Watched | None = None
    history: HistoryState | None = None
    logged: bytes | None = None
    labels: dict[int, str] = {}


@dataclass(frozen=True, slots=True)
class ClosedImpression:
    """What became of an impression: how far the weights moved, its clicks, and what went wrong, if anything.

    ``vote`` is what a guard list says of the learned ranker, "" for other lists.
    """

    id: str
    outcome: Outcome
    norm: float
    clicks: int
    reciprocal_rank: float
    trouble: str | None = None
    vote: str = ""


class Machine:
    """Applies the events of one ranker, in the order of their numbers. There is no clock in it and no chance.

    Two that have applied the same events are equal, to the bit. What it needs beside the events it is given: the
    impressions (the bodies and features of earlier events) and the states of earlier versions (that earlier events led to).

    Parameters
    ----------
    definition
        Of the ranker when it was created.
    fetch
        Returns an impression and its features.
    load
        Returns the state of an earlier version, None where it is gone; without it, all that may be needed are held.
    most_states
        How many states of earlier versions are held, where they can be loaded again; None: all that may be needed.
    attached
        Returns the features of a list that another system showed.
    """

    def __init__(
        self,
        definition: Definition,
        fetch: Fetch,
        load: Callable[[int], State | None] | None = None,
        most_states: int | None = MOST_STATES,
        attached: Attached = lambda number: None,
    ) -> None:
        self._attached = attached
        self.definition, self._fetch, self._load, self._most_states = definition, fetch, load, most_states
        self._created = definition
        self.number, self.version = definition.number, 1
        self.state = self.served = definition.start
        self.changed, self.frozen = False, definition.spec.mode == "frozen"
        self.pin: tuple[int, State] | None = None  # the version that a shadow serves, in place of the client's order
        self.floor = 0  # impressions of versions up to this one have other features than the ranker has now
        self.labels: dict[int, str] = {}  # of versions that an operator keeps; swapped, never changed
        self.watch, self.history = Watch(definition.spec.guard), Recorder(definition.number)
        self.tally, self.open = Tally(), dict[str, OpenImpression]()
        self.logged: State | None = None  # what lists of other systems have taught, until the first live one
        #: Numbers of the next events from which, as the log says, nobody could learn; `told` sets it.
        self.failures: Collection[int] = ()
        self.last_step: LearnedStep | None = None  # for `Service.last_step`; what is learned does not depend on it
        self._states, self.references = dict[int, State](), Counter[int]()  # references: open impressions by version

    def apply(self, event: Event) -> ClosedImpression | None:
        """Go one event further; those up to `number` have been applied and are left out."""
        if event.number <= self.number:
            return None
        closed = None
        self.history.begin(event.time, self.end)
        if event.kind == IMPRESSION:
            self._impression(event)
        elif event.kind == FEEDBACK:
            self._feedback(unpack(event.body, StoredFeedback))
        elif event.kind == LOGGED:
            closed = self._log(unpack(event.body, StoredLog), event)
        elif event.kind == CLOSED:
            closed = self._close(unpack(event.body, str), event)
        elif event.kind == PUBLISHED:
            self._publish(unpack(event.body, Published))
        elif event.kind == CONTROL:
            self._control(unpack(event.body, Control), event)
        elif event.kind != FAILED:  # that was said to this machine before, see `failures`
            raise StoreCorrupt(
                f"event {event.number} is of an unknown kind, {event.kind!r}; a later duelrank may know it"
            )
        self.history.count()
        self.number = event.number
        return closed

    def _impression(self, event: Event) -> None:
        stored = unpack(event.body, StoredImpression)
        way = stored.way if stored.version > max(self.floor, self.version - WINDOW - 1) else OLD
        if way == GUARD and stored.version <= self.watch.floor:
            way = OLD
        head = (event.number, event.time, stored.version, way)
        self.open[event.key] = OpenImpression(*head, [], None, False, stored.teams, b"", len(stored.order))
        self.history.made(stored.way, stored.missing, stored.out_of_range)
        self.references[stored.version] += 1
        self.tally.impressions += 1

    def _feedback(self, feedback: StoredFeedback) -> None:
        impression = self.open.get(feedback.impression)
        if impression is None:
            self.tally.late += 1
            return
        impression.has_feedback = True
        weight = self.definition.spec.actions.get(feedback.action or CLICK, 0.0)
        if feedback.clicks and weight > 0.0:
            _weigh(impression, feedback.clicks, weight)
        if feedback.examined is not None:
            impression.examined = max(feedback.examined, impression.examined or 0)
        impression.user = impression.user or feedback.user

    def _close(self, id: str, event: Event) -> ClosedImpression | None:
        impression = self.open.get(id)
        if impression is None:
            return None
        outcome: Outcome
        norm, trouble = 0.0, None
        if not impression.has_feedback:
            outcome = "no_feedback"  # it may never have been seen
        elif self.frozen or self.watch.stepped_back or impression.way not in (EXPLORED, SHADOW):
            outcome = "skipped"
        else:
            outcome, norm, trouble = self._learn(id, impression, event)
        vote = self._vote(impression, event) if impression.way == GUARD else ""
        setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
        self.history.closed(impression.way, impression.length, impression.clicks, outcome, vote)
        del self.open[id]  # last: where the store fails on the way, the event can be applied again
        self._release(impression.version)
        first = 1.0 / (impression.clicks[0] + 1) if impression.clicks else 0.0
        return ClosedImpression(id, outcome, norm, len(impression.clicks), first, trouble, vote)

    def _learn(self, id: str, impression: OpenImpression, event: Event) -> tuple[Outcome, float, str | None]:
        """Learn once; what cannot be learned from is counted and changes nothing, here and in every replay."""
        try:
            self._check_learnable(event)
            after = self._learned(id, impression)
        except StorageFailure:
            raise
        except Exception as error:
            return "failed", 0.0, f"{self.definition.spec.name!r} could not learn from impression {id!r}: {error}"
        norm, self.logged = self.definition.distance(self.state, after), None
        self.last_step = LearnedStep(id, impression, self.definition, self.state_of(impression.version), self.state)
        self.state, self.changed = after, True
        return "learned", norm, None

    def _check_learnable(self, event: Event) -> None:
        if event.number in self.failures:
            raise LookupError("it could not when that was first tried, as the event log says")

    def _learned(self, id: str, impression: OpenImpression) -> State:
        found, made_by = self._fetch(id, impression.number), self.state_of(impression.version)
        if found is None or made_by is None:
            raise LookupError("its features are gone" if found is None else f"version {impression.version} is gone")
        stored, raw = found
        rebuilt = self.definition.rebuild(made_by, id, stored, raw)
        fresh = derive(self.definition.learn_key, self.state.step)
        feedback = feedback_on(impression, len(stored.order))
        after = self.definition.algorithm.learn(self.state, rebuilt, feedback, fresh)
        if not np.isfinite(after.weights).all():
            raise ArithmeticError("the weights would no longer be finite")
        return after

    def _log(self, body: StoredLog, event: Event) -> ClosedImpression | None:
        """Learn from a list of another system; only before the first live one, which knows better."""
        live = self.state.step > 0
        if live or self.frozen or self.watch.stepped_back or body.names != self.definition.names_digest:
            self.tally.unused += 1  # it was taken before somebody said otherwise
            return None
        try:
            self._check_learnable(event)
            raw = self._attached(event.number)
            if raw is None:
                raise LookupError("its features are gone")
            self.logged, self.state = self._taught(body, raw)
        except StorageFailure:
            raise
        except Exception as error:
            self.tally.failed += 1
            trouble = f"{self.definition.spec.name!r} could not learn from the logged list {event.key!r}: {error}"
            return ClosedImpression(event.key, "failed", 0.0, 0, 0.0, trouble)
        self.tally.backfilled += 1
        self.changed = True
        return None

    def _taught(self, body: StoredLog, raw: Features) -> tuple[State, State]:
        """Return what the logs have taught with this list, and the ranker that knows it."""
        definition, teacher = self.definition, self.definition.log_learner
        before = teacher.start(self.state) if self.logged is None else self.logged
        seen = OpenImpression(0, 0.0, 0, OLD, [], body.examined, True)
        for action, places in body.actions.items():
            if (weight := definition.spec.actions.get(action, 0.0)) > 0.0:
                _weigh(seen, places, weight)
        fresh = derive(definition.log_key, before.step)
        parts = definition.query(raw), np.arange(body.shown), feedback_on(seen, body.shown)
        logged = teacher.learn(before, *parts, fresh)
        after = teacher.handed_over(self.state, logged)
        if not np.isfinite(after.weights).all():
            raise ArithmeticError("the weights would no longer be finite")
        return logged, after

    def end(self) -> End:
        """Return how the ranker is now, for its history."""
        guard, found = self.guard, None
        if guard is not None:
            found = (guard.period.wins, guard.period.losses, guard.detector.statistic, guard.learned_share)
        # Between a change of features and the next version, what is served has other features than the definition.
        weights = b"" if self.floor == self.version else self.definition.rises(self.served)
        return End(self.version, weights, found)

    @property
    def guard(self) -> Guard | None:
        """What is known of the learned ranker against the baseline."""
        return self.watch.guard

    def _vote(self, impression: OpenImpression, event: Event) -> str:
        made_by, version = None, impression.version
        if (
            self.guard is not None
            and self.guard.spec.on_alarm == "rollback"
            and (state := self.state_of(version)) is not None
        ):
            made_by = version, state
        gains = feedback_on(impression, len(impression.teams)).gains
        return self.watch.vote(impression.teams, gains, impression.user, made_by, event.number, event.time)

    def _publish(self, published: Published) -> None:
        self._hold(self.version, self.served)
        self.version, self.served, self.changed = published.version, self.state, False
        self._let_go(self.version - WINDOW - 1)

    def _control(self, control: Control, event: Event) -> None:
        before = (self.state, self.pin, self.frozen, self.definition, self.guard, self.labels)
        old = None if control.state is None else unpack_state(control.state, self.definition.algorithm)
        if old is not None and control.features is not None:
            old = self.definition.carried(
                old, control.features
            )  # they may have changed since that version, or just now
        fits = old is not None and self.definition.fits(old)
        if control.action == "rollback" and old is not None and fits:
            self.state, self.logged = self.definition.returned(self.state, old), None
            self.watch.go_back(self.version)
            self._forget_votes()
        elif control.action == "pin" and control.version is not None and old is not None and fits:
            self.pin = control.version, old
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
                self.state, self.logged = self.definition.returned(self.state, back), None
                self._forget_votes()
        elif control.action == "change" and control.change is not None:
            with suppress(
                DuelrankError
            ):  # two changes that came at once and do not go together: the second does nothing
                self._redefine(self.definition.changed(control.change))
        elif control.action == "label" and control.version is not None:
            self._label(control.version, control.label)
        self.changed = self.changed or control.action not in ("start", "label")
        after = (self.state, self.pin, self.frozen, self.definition, self.guard, self.labels)
        if control.action == "start" or any(one is not other for one, other in zip(before, after, strict=True)):
            self.history.mark(event.time, control.action, _said(control), self.version)

    def _label(self, version: int, label: str) -> None:
        """Keep a version under a label, or no longer; one too many, which came together with others, is left out."""
        others = {number: known for number, known in self.labels.items() if number != version}
        if label and len(others) < MOST_LABELS:
            self.labels = {**others, version: label}
        elif not label and version in self.labels:
            self.labels = others

    def _forget_votes(self) -> None:
        """Where the watch has begun anew, guard lists that are still open say nothing any more."""
        for impression in self.open.values():
            if impression.way == GUARD and impression.version <= self.watch.floor:
                impression.way = OLD

    def _redefine(self, definition: Definition) -> None:
        """Go on with another definition; from open impressions with other features nothing is learned."""
        before, self.definition = self.definition, definition
        if definition.spec.mode != before.spec.mode:
            self.frozen = definition.spec.mode == "frozen"
            self.pin = self.pin if definition.spec.mode == "shadow" else None
        if definition.spec.features != before.spec.features:
            self.state, self.logged = definition.carried(self.state, before.spec.features), None
            self.pin = (
                None if self.pin is None else (self.pin[0], definition.carried(self.pin[1], before.spec.features))
            )
            self.watch.carry(lambda state: definition.carried(state, before.spec.features))
            self.floor = self.version
            for impression in self.open.values():
                impression.way = OLD
        if definition.spec.guard != before.spec.guard:
            self._watch_by(definition.spec.guard)

    def _watch_by(self, spec: GuardSpec | None) -> None:
        """Go on with another guard; one that comes or goes knows nothing of lists up to this version."""
        if spec is None:
            self.watch = Watch(None)
        elif self.guard is None:
            self.watch = Watch(spec, self.version, self.number)
            self._forget_votes()
        else:
            self.watch.change(spec)

    def state_of(self, version: int) -> State | None:
        """Return the state of a version that open impressions were made with."""
        if version == self.version:
            return self.served
        found = self._states.get(version)
        if found is None and version == 1:
            return self._created.start
        if found is None and self._load is not None:
            found = self._load(version)
            if found is not None:
                self._hold(version, found)
        return found

    def _hold(self, version: int, state: State) -> None:
        self._states[version] = state
        if self._load is not None and self._most_states is not None and len(self._states) > self._most_states:
            del self._states[next(iter(self._states))]

    def _release(self, version: int) -> None:
        self.references[version] -= 1
        if not self.references[version]:
            del self.references[version]
            self._let_go(version)

    def _let_go(self, version: int) -> None:
        """Forget a state that no impression needs, nor any that may still come."""
        if version < self.version - WINDOW and version not in self.references:
            self._states.pop(version, None)

    def publication(self) -> Published:
        """Return the event that would make a version of what was learned."""
        return Published(self.version + 1, digest(self.served))

    @property
    def changed_spec(self) -> RankerSpec | None:
        """The spec where it has changed since the ranker was created."""
        return None if self.definition is self._created else self.definition.spec

    def checkpoint(self) -> bytes:
        """Return all that is needed to go on from here; equal machines give equal bytes."""
        states = pack_state(self.state), pack_state(self.served)
        pin = None if self.pin is None else (self.pin[0], pack_state(self.pin[1]))
        head = (self.number, self.version, self.changed, self.frozen, self.tally)
        watched, recorded = self.watch.note(), self.history.note()
        logged = None if self.logged is None else pack_state(self.logged)
        parts = (*head, *states, self.open, pin, self.changed_spec, self.floor)
        return pack(_Checkpoint(*parts, watched, recorded, logged, self.labels))

    def restore(self, body: bytes) -> None:
        """Go on from a checkpoint."""
        found, recipe = unpack(body, _Checkpoint), self.definition.algorithm
        self.number, self.version, self.changed, self.frozen = found.number, found.version, found.changed, found.frozen
        self.tally, self.open, self.floor = found.tally, found.open, found.floor
        self.labels = found.labels
        self.definition = self._created if found.spec is None else self._created.with_spec(found.spec)
        self.served, self.state = unpack_state(found.served, recipe), unpack_state(found.state, recipe)
        self.pin = None if found.pin is None else (found.pin[0], unpack_state(found.pin[1], recipe))
        self.watch = Watch.restored(found.watch, recipe)
        self.logged = None
        if found.logged is not None:
            self.logged = unpack_state(found.logged, self.definition.log_learner.algorithm)
        self.history.restore(found.history, found.number)
        self.references = Counter(impression.version for impression in self.open.values())
        self._states.clear()

    def equals(self, body: bytes) -> bool:
        """Whether a checkpoint is of this very machine; what was only counted is not compared, see `Tally`."""
        mine, other = unpack(self.checkpoint(), _Checkpoint), unpack(body, _Checkpoint)
        mine.tally = other.tally = Tally()
        if other.history is None or other.history.since != self.history.since:
            _without_history(mine)  # it began elsewhere, such as with a later version of duelrank
            _without_history(other)
        if mine.watch is not None and other.watch is not None:  # a share that earlier versions did not note
            guard = msgspec.structs.replace(mine.watch.guard, anonymous=other.watch.guard.anonymous)
            mine.watch.guard = guard
        other.spec = None if other.spec is None else settled(other.spec)  # as this version writes it
        return mine == other

    def needs(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return what is needed to go on from here: numbers of open impressions, and versions."""
        return _needed(self.version, self.open)


def _weigh(impression: OpenImpression, places: Sequence[int], weight: float) -> None:
    """Note an action of this weight at some places; of several at one place the heaviest counts."""
    known = set(impression.clicks)
    for place in places:
        if place not in known or weight > impression.weights.get(place, 1.0):
            impression.weights = {**impression.weights, place: weight}
            if weight == 1.0:
                del impression.weights[place]
    impression.clicks = sorted(known.union(places))


def _without_history(checkpoint: _Checkpoint) -> None:
    """Leave out of a checkpoint what only the history needs, which earlier versions did not have."""
    checkpoint.history = None
    for impression in checkpoint.open.values():
        impression.length, impression.way = 0, GREEDY if impression.way == OLD else impression.way


def _said(control: Control) -> str:
    """Return what an event of control did, in a few words."""
    if control.action == "change" and control.change is not None:
        return ", ".join(
            name for name in control.change.__struct_fields__ if getattr(control.change, name) != _SAME[name]
        )
    if control.action == "label":
        return f"version {control.version}: {control.label or 'no label any more'}"
    if control.version is not None:
        return f"version {control.version}"
    if control.evidence is not None:
        return f"{control.evidence.wins:,} wins, {control.evidence.losses:,} losses"
    return ""


_SAME = {name: getattr(Change(), name) for name in Change.__struct_fields__}


def history_since(checkpoint: bytes) -> int | None:
    """Return the number of the event behind which the history in a checkpoint began, None where it has none."""
    found = unpack(checkpoint, _Checkpoint).history
    return None if found is None else found.since


def needed(checkpoint: bytes) -> tuple[frozenset[int], frozenset[int]]:
    """Return what is needed to go on from a checkpoint: numbers of open impressions, and versions."""
    found = unpack(checkpoint, _Checkpoint)
    return _needed(found.version, found.open)


def _needed(version: int, open: dict[str, OpenImpression]) -> tuple[frozenset[int], frozenset[int]]:
    recent = range(max(1, version - WINDOW), version + 1)
    numbers = frozenset(impression.number for impression in open.values())
    return numbers, frozenset(impression.version for impression in open.values()).union(recent)
