"""The one place that learns: applies the log in order, publishes versions, closes what nobody closes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import takewhile
from time import perf_counter, sleep

from duelrank.api import GuardInfo
from duelrank.core.errors import StorageFailure, StoreCorrupt
from duelrank.core.types import Features
from duelrank.guard import Guard
from duelrank.serving.clock import Clock
from duelrank.serving.leader.capacity import Capacity
from duelrank.serving.leader.retention import Retention
from duelrank.serving.log.attachments import unpack_features
from duelrank.serving.log.bodies import (
    CLOSED,
    CONTROL,
    DELETED,
    FAILED,
    IMPRESSION,
    PUBLISHED,
    RANKERS,
    Control,
    Deleted,
    Failed,
    StoredImpression,
    pack,
    unpack,
)
from duelrank.serving.log.impressions import KnownImpression, RecentImpressions, read_attached
from duelrank.serving.log.tail import Tail
from duelrank.serving.observer import GuardEvent
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.guarding import guard_info
from duelrank.serving.ranker.history import HISTORY, MOST_POINTS, STEPS, block_kind
from duelrank.serving.ranker.machine import ClosedImpression, Fetch, Machine
from duelrank.serving.ranker.rankers import Ranker, Rankers
from duelrank.serving.ranker.versions import (
    CHECKPOINT,
    STATUS,
    Status,
    Version,
    Versions,
    checkpoints,
    told,
)
from duelrank.serving.settings import Settings
from duelrank.storage import Event, NewEvent, Storage

__all__ = ["Announce", "Close", "Learner", "Overtaken"]

logger = logging.getLogger("duelrank.serving")

# Events that are read at once; the impressions that are asked to be closed at once.
CHUNK = 500
# Seconds of learning without a break.
SLICE = 0.002
# A closing that has not come back after so many seconds is asked for again.
PATIENCE = 5.0
# A checkpoint is written after so many events, and a tenth of a large number of open impressions; or after so many seconds.
CHECKPOINT_EVENTS, CHECKPOINT_SECONDS = 2000, 60.0
# Seconds until more is removed, where there is much to remove.
TIDY_AGAIN = 1.0
# Seconds between two notes for followers of how far a ranker has come.
STATUS_SECONDS = 0.5
# The kind of snapshot whose number is that of the newest event of a guard that everybody was told of.
TOLD = "told"
# Characters that are kept of why nothing could be learned from an event.
MOST_REASON = 500
# Seconds between two notes for followers of what has happened lately.
HISTORY_SECONDS = 2.0

#: Asks for impressions of a ranker, by their ids and numbers, to be closed.
Close = Callable[[str, dict[str, int]], None]
#: Is told what a guard has done.
Announce = Callable[[str, GuardEvent, GuardInfo], None]


class Overtaken(StorageFailure):
    """Another process has led meanwhile, and has removed what this one would need: to go on from here would go wrong."""


class _Course:
    """One ranker on its way through the log: its machine, and what the leader has to remember beside it."""

    def __init__(self, created: Definition, machine: Machine, started: float) -> None:
        self.created, self.machine, self.unsaved_events, self.saved_at = created, machine, 0, started
        self.published_at, self.urgent, self.announced = started - 1e9, False, 0
        self.failed: dict[int, str] = {}  # numbers of events that nothing could be learned from, which is not noted yet
        self.unsaved: Version | None = None
        self.history_number, self.history_told_at = -1, started - 1e9
        self.deadlines: dict[str, float] = {}  # by the monotonic clock, the oldest impression first
        self.asked: dict[str, float] = {}
        self.told_number, self.told_at = -1, started - 1e9
        self.told_guard: Guard | None = None
        self.guard_told_at, self.warned = started - 1e9, False


class Learner:
    """What the leader does. Everything in here may be done again by the next leader, with the same result.

    Parameters
    ----------
    storage, settings, clock, rankers, recent, tail
        Of the service.
    close
        Asks for impressions to be closed.
    announce
        Is told what guards have done.
    """

    def __init__(
        self,
        storage: Storage,
        settings: Settings,
        clock: Clock,
        rankers: Rankers,
        recent: RecentImpressions,
        tail: Tail,
        close: Close,
        announce: Announce,
    ) -> None:
        self._storage, self._settings, self._clock, self._rankers = storage, settings, clock, rankers
        self._recent, self._tail, self._close, self._announce = recent, tail, close, announce
        self._courses: dict[str, _Course] = {}
        self._read = RecentImpressions(settings.recent)  # bodies of impressions that other processes have made
        self._retention = Retention(storage, settings)
        self._capacity = Capacity(storage, clock, rankers)
        self._cursor, self._more_to_tidy = 0, False
        self._tidied = self._looked = clock.monotonic()

    def restore(self) -> None:
        """Bring all rankers to where the log ends now."""
        self._tail.wanted = True
        last = self._storage.log.last_number()
        self._rankers.refresh()  # behind that: of a ranker that is created later, the log will tell
        self._retention.purge_deleted()
        for name, ranker in list(self._rankers.by_name.items()):
            self._begin(name, ranker, last)
        self._note_start()
        self._cursor = last

    @property
    def applied(self) -> int:
        """The number of the last event that was applied."""
        return self._cursor

    def _note_start(self) -> None:
        """Note in the log of every ranker that had something to restore that a process begins to learn."""
        time, key, body = self._clock.time(), os.urandom(12).hex(), pack(Control("start"))
        restored = [name for name, each in self._courses.items() if each.machine.number > each.created.number]
        if restored:
            self._storage.log.append([NewEvent(name, CONTROL, key, time, body) for name in restored])

    def forget(self) -> None:
        """Lead no more."""
        self._tail.wanted = False
        for ranker in self._rankers.by_name.values():
            ranker.machine = None

    def _begin(self, name: str, ranker: Ranker, last: int) -> None:
        """Restore one ranker: its newest checkpoint, and the events since."""
        versions = Versions(self._storage, ranker.created)
        attached = partial(read_attached, self._storage, name)
        machine = Machine(ranker.created, self._fetcher(name), versions.state, attached=attached)
        for body in checkpoints(self._storage, name):
            machine.restore(body)
            break
        course = _Course(ranker.created, machine, self._clock.monotonic())
        time = ranker.created.created
        announced = self._storage.snapshots.load(name, TOLD)
        for event in told(self._storage.log, name, machine, last):
            guard = machine.guard
            self._apply(name, course, event)
            course.unsaved_events += 1
            if event.kind == CONTROL and (announced is None or event.number > announced.number):
                self._tell_guard_event(name, guard, machine)  # the last leader got no further than to note it
            time = event.time if event.kind == PUBLISHED else time
        self._set_deadlines(course)
        self._note_failures(name, course)
        newest = versions.load()
        if machine.version > 1 and (newest is None or newest.version < machine.version):
            versions.save(newest := Version.of(machine, time))  # the last leader got no further than to announce it
        if newest is not None:
            self._rankers.serve(name, newest)
        self._save_blocks(name, course)
        self._courses[name] = course
        ranker.machine = machine

    def _apply(self, name: str, course: _Course, event: Event) -> ClosedImpression | None:
        """Go one event further; where that fails, and somebody else has come further, raise: it may be for what they removed."""
        machine = course.machine
        closed = machine.apply(event)
        if closed is not None and closed.outcome == "failed" and event.number not in machine.failures:
            for info in reversed(self._storage.snapshots.list(name, CHECKPOINT)):
                if info.number <= machine.number:
                    break
                with suppress(StoreCorrupt):  # nobody can go on from a damaged one
                    self._storage.snapshots.load(name, CHECKPOINT, info.number)
                    raise Overtaken(f"another process has come further with {name!r}: going on from where it is")
            course.failed[event.number] = (closed.trouble or "")[:MOST_REASON]
        return closed

    def _note_failures(self, name: str, course: _Course) -> None:
        """Note in the log from which events nothing could be learned, before anything that follows from it is kept."""
        version = max(course.machine.version, course.announced)
        bodies = {str(number): pack(Failed(version, reason)) for number, reason in course.failed.items()}
        if bodies:
            time = self._clock.time()
            self._storage.log.append([NewEvent(name, FAILED, key, time, body) for key, body in bodies.items()])
            course.failed.clear()

    def _fetcher(self, name: str) -> Fetch:
        def fetch(id: str, number: int) -> tuple[StoredImpression, Features] | None:
            recent = self._recent.get(name, id)
            if recent is not None and recent.number == number and recent.body is not None and recent.attachment:
                return recent.body, unpack_features(recent.attachment)
            read = self._read.get(name, id)
            if read is not None and read.number == number and read.body is not None:
                body = read.body
            else:
                event = self._storage.log.find(name, IMPRESSION, [id]).get(id)
                if event is None or not event.body:
                    return None
                body = unpack(event.body, StoredImpression)
            features = read_attached(self._storage, name, number)
            return None if features is None else (body, features)

        return fetch

    def _deadline(self, machine: Machine, made: float) -> float:
        """When an impression is to be closed. Only here is the clock asked that may jump: none is older than its time."""
        most = machine.definition.spec.close_after
        age = min(max(self._clock.time() - made, 0.0), most)
        return self._clock.monotonic() + most - age

    def _set_deadlines(self, course: _Course) -> None:
        """Say anew when each open impression is to be closed, the earliest first."""
        machine = course.machine
        deadlines = {id: self._deadline(machine, each.time) for id, each in machine.open.items()}
        course.deadlines = dict(sorted(deadlines.items(), key=lambda item: item[1]))
        course.asked.clear()

    def step(self) -> bool:
        """Apply what is new, and do what is due; return whether there may be more to do at once."""
        self._save_versions()
        found = self._tail.take(self._storage.log, self._cursor, CHUNK)
        started = perf_counter()
        for event in found:
            self._take(event)
            self._cursor = event.number
            if perf_counter() - started > SLICE:
                sleep(0)  # let those who answer requests go first
                started = perf_counter()
        self._save_versions()
        self._look_after(found)
        published = self._act_on_guards() | self._publish()
        if self._clock.monotonic() - self._tidied >= self._settings.tidy_every:
            self.tidy()
        return published or bool(found)

    def _take(self, event: Event) -> None:
        if event.ranker == RANKERS:
            self._take_ranker(event)
            return
        course = self._courses.get(event.ranker)
        if course is None or event.number <= course.machine.number:
            return
        before, guard = course.machine.definition, course.machine.guard
        closed = self._apply(event.ranker, course, event)
        course.unsaved_events += 1
        if course.machine.definition.spec.close_after != before.spec.close_after:
            self._set_deadlines(course)
        if event.kind == IMPRESSION:
            if self._recent.get(event.ranker, event.key) is None:
                known = KnownImpression(event.number, unpack(event.body, StoredImpression))
                self._read.put(event.ranker, event.key, known)
            course.deadlines[event.key] = self._deadline(course.machine, event.time)
        elif event.kind == PUBLISHED:
            course.unsaved = Version.of(course.machine, event.time)
        elif event.kind == CONTROL:
            course.urgent = course.machine.changed
            self._tell_guard_event(event.ranker, guard, course.machine)
        if closed is not None and event.kind == CLOSED:
            course.deadlines.pop(closed.id, None)
            course.asked.pop(closed.id, None)
            if (recent := self._recent.get(event.ranker, closed.id)) is not None:
                recent.closed = True  # also where another process has closed it
        if closed is not None:
            self._tell(event.ranker, closed)

    def _take_ranker(self, event: Event) -> None:
        """Begin with a ranker that was created, or end with one that was deleted."""
        self._rankers.refresh()
        if event.kind == DELETED:
            deleted = unpack(event.body, Deleted)
            self._courses.pop(deleted.name, None)
            self._read.forget(deleted.name)
            self._retention.purge(deleted, event.number)
        ranker = self._rankers.by_name.get(event.key)
        if ranker is not None and event.key not in self._courses and ranker.created.number == event.number:
            self._begin(event.key, ranker, event.number)

    def _tell(self, name: str, closed: ClosedImpression) -> None:
        if closed.trouble is not None:
            logger.error("%s", closed.trouble)
            self._rankers.observer.failed(name, "learn")
        self._rankers.observer.closed(name, closed.outcome, closed.norm, closed.clicks, closed.reciprocal_rank)
        if closed.vote:
            self._rankers.observer.guard_list(name, closed.vote)

    def _tell_guard_event(self, name: str, before: Guard | None, machine: Machine) -> None:
        """Tell what a guard has done with an event that was just applied, and note that it was told."""
        after = machine.guard
        if before is None or after is None or after is before:
            return
        happened: GuardEvent | None = None
        if after.alarms > before.alarms:
            happened = "alarm"
        elif after.promotions > before.promotions:
            happened = "promotion"
        elif before.raised and not after.raised:
            happened = "resume"
        if happened is not None:
            self._announce(name, happened, guard_info(name, machine.version, after))
            self._storage.snapshots.save(name, TOLD, machine.number, self._clock.time(), b"")
            self._storage.snapshots.prune(name, TOLD, 1)

    def _look_after(self, found: list[Event]) -> None:
        """Close, write down and tell what is due: of the rankers with events now, and of all now and then."""
        now, names = self._clock.monotonic(), {event.ranker for event in found}
        if now - self._looked >= self._settings.poll_every:
            self._looked, names = now, set(self._courses)
            self._storage.ping()  # also where nothing happens, a store that is gone must be noticed
        for name in names & self._courses.keys():
            course = self._courses[name]
            self._close_overdue(name, course)
            self._checkpoint(name, course)
            self._tell_status(name, course)
            self._tell_guard(name, course)
            self._rankers.observer.open_impressions(name, len(course.machine.open))

    def tell_lag(self) -> None:
        """Tell how many events of the log are not applied yet, and how old the oldest of them is; from any thread."""
        log, cursor = self._storage.log, self._cursor
        lag = max(0, log.last_number() - cursor)
        waiting = log.read(cursor, 1) if lag else []
        self._rankers.observer.lag(lag, max(0.0, self._clock.time() - waiting[0].time) if waiting else 0.0)

    def _tell_status(self, name: str, course: _Course) -> None:
        """Note for followers how far a ranker has come, and what has happened lately; they look every half second."""
        now, machine = self._clock.monotonic(), course.machine
        if self._storage.shared and machine.number != course.told_number and now - course.told_at >= STATUS_SECONDS:
            status = Status.of(machine)
            self._storage.snapshots.save(name, STATUS, machine.number, self._clock.time(), pack(status))
            self._storage.snapshots.prune(name, STATUS, 1)
            course.told_number, course.told_at = machine.number, now
        if (
            self._storage.shared
            and machine.number != course.history_number
            and now - course.history_told_at >= HISTORY_SECONDS
        ):
            body = pack(machine.history.copy(machine.end()))
            self._storage.snapshots.save(name, HISTORY, machine.number, self._clock.time(), body)
            self._storage.snapshots.prune(name, HISTORY, 1)
            course.history_number, course.history_told_at = machine.number, now

    def _tell_guard(self, name: str, course: _Course) -> None:
        """Tell how a ranker does against its baseline, where that has changed; now and then, because it takes a moment."""
        now, guard = self._clock.monotonic(), course.machine.guard
        if guard is not course.told_guard and now - course.guard_told_at >= STATUS_SECONDS:
            info = None if guard is None else guard_info(name, course.machine.version, guard)
            self._rankers.observer.guard(name, info)
            course.told_guard, course.guard_told_at = guard, now
            self._warn(name, course, () if info is None else info.warnings)

    def _warn(self, name: str, course: _Course, warnings: tuple[str, ...]) -> None:
        """Write a line for what an operator should know of a guard, once until it is over."""
        if warnings and not course.warned:
            logger.warning("guard of %r: %s", name, "; ".join(warnings))
        course.warned = bool(warnings)

    def _save_versions(self) -> None:
        """Keep the versions that were announced, and serve them: never one that a crash could take away."""
        for name, course in self._courses.items():
            self._note_failures(name, course)
            if course.unsaved is not None:
                Versions(self._storage, course.created).save(course.unsaved)
                self._rankers.serve(name, course.unsaved)
                course.unsaved = None
            self._save_blocks(name, course)

    def _save_blocks(self, name: str, course: _Course) -> None:
        """Keep the parts of the history that are done."""
        done = course.machine.history.done
        while done:
            step, block = done[0]
            kind, (seconds, points) = block_kind(step), STEPS[step]
            begun = float(block.points[0].at * seconds)
            self._storage.snapshots.save(name, kind, block.number, begun, pack(block))
            self._storage.snapshots.prune(name, kind, MOST_POINTS // points + 1)
            del done[0]

    def _act_on_guards(self) -> bool:
        """Note the alarms and promotions that are due; each happens when its event comes back in the log."""
        due = {name: each for name, course in self._courses.items() if (each := course.machine.watch.due()) is not None}
        if due:
            time = self._clock.time()
            self._storage.log.append(
                [NewEvent(name, CONTROL, key, time, pack(control)) for name, (key, control) in due.items()]
            )
        return bool(due)

    def _publish(self) -> bool:
        """Announce versions of what has changed; each begins to be served when its announcement comes back in the log."""
        now = self._clock.monotonic()
        due = [
            (name, course)
            for name, course in self._courses.items()
            if course.machine.changed
            and course.unsaved is None
            and (course.urgent or now - course.published_at >= self._settings.publish_every)
        ]
        time = self._clock.time()
        bodies = [(name, course.machine.publication()) for name, course in due]
        if bodies:
            self._storage.log.append(
                [NewEvent(name, PUBLISHED, str(body.version), time, pack(body)) for name, body in bodies]
            )
        for (_, course), (_, body) in zip(due, bodies, strict=True):
            course.published_at, course.urgent, course.announced = now, False, body.version
        return bool(due)

    def _close_overdue(self, name: str, course: _Course) -> None:
        """Ask for the impressions to be closed whose time is over, and for the oldest where there are too many."""
        now, machine = self._clock.monotonic(), course.machine
        surplus = len(machine.open) - len(course.asked) - self._settings.max_open
        due = dict.fromkeys(takewhile(lambda id: course.asked[id] <= now, course.asked), 0)  # asked for, and not closed
        for place, (id, deadline) in enumerate(course.deadlines.items()):
            if len(due) >= CHUNK or (deadline > now and place >= surplus):
                break
            due[id] = 0
        for id in due:
            course.deadlines.pop(id, None)
            course.asked.pop(id, None)
            course.asked[id] = now + PATIENCE
            due[id] = machine.open[id].number
        if due:
            self._close(name, due)

    def _checkpoint(self, name: str, course: _Course, now: bool = False) -> None:
        """Write down where a ranker stands, now and then, so that a restart has little to do."""
        machine = course.machine
        behind, waited = course.unsaved_events, self._clock.monotonic() - course.saved_at
        enough = behind >= CHECKPOINT_EVENTS + len(machine.open) // 10 or waited >= CHECKPOINT_SECONDS
        if behind and (enough or now) and course.unsaved is None and not machine.history.done:
            self._storage.snapshots.save(name, CHECKPOINT, machine.number, self._clock.time(), machine.checkpoint())
            self._retention.note(name, machine)
            course.unsaved_events, course.saved_at = 0, self._clock.monotonic()

    def tidy(self) -> None:
        """Remove what is older than it needs to be, and see how much room there is; soon again where more is left."""
        self._retention.purge_again(self._rankers.by_name, self._cursor)
        more = False
        for name, course in self._courses.items():
            self._checkpoint(name, course, now=not self._more_to_tidy)
            more |= self._retention.tidy(name, course.created, course.machine, self._clock.time())
        self._capacity.look()
        self._more_to_tidy = more
        self._tidied = self._clock.monotonic() - (self._settings.tidy_every - TIDY_AGAIN if more else 0.0)

    def finish(self) -> None:
        """Apply what is there, and write down where all rankers stand."""
        before = -1
        # The last event may never come, where it was deleted; a step may append some more.
        while before < self._cursor < self._storage.log.last_number():
            before = self._cursor
            self.step()
        self._save_versions()
        for name, course in self._courses.items():
            self._checkpoint(name, course, now=True)
