"""The one place where is learned: applies the log in order, publishes versions, closes what nobody closes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter, sleep

from duelrank.serving.clock import Clock
from duelrank.serving.leader.retention import Tidying
from duelrank.serving.log.bodies import RANKERS, Shown, pack, unpack
from duelrank.serving.ranker.machine import Closed, Machine
from duelrank.serving.ranker.rankers import Board, Ranker
from duelrank.serving.ranker.versions import Model, Versions, checkpoints, events
from duelrank.serving.settings import Settings
from duelrank.storage import Event, NewEvent, Storage

__all__ = ["Learning"]

logger = logging.getLogger("duelrank.serving")

# Events that are read at once; the closings that are asked for at once.
CHUNK = 500
# Seconds of learning without a break.
SLICE = 0.002
# A closing that has not come back after so many seconds is asked for again.
PATIENCE = 5.0
# A checkpoint is written after so many events, and a tenth of a large number of open lists; or after so many seconds.
CHECKPOINT_EVENTS, CHECKPOINT_SECONDS = 2000, 60.0

Close = Callable[[str, dict[str, int]], None]


class _Course:
    """One ranker on its way through the log: its machine, and what the leader has to remember beside it."""

    def __init__(self, machine: Machine, started: float) -> None:
        self.machine, self.unsaved_events, self.saved_at = machine, 0, started
        self.published_at, self.urgent = started - 1e9, False
        self.unsaved: Model | None = None
        self.deadlines: dict[str, float] = {}  # by the monotonic clock, the oldest list first
        self.asked: dict[str, float] = {}


class Learning:
    """What the leader does. Everything in here may be done again by the next leader, with the same result.

    Parameters
    ----------
    storage, settings, clock, board
        Of the service.
    close
        Asks for lists, by their ids and numbers, to be closed.
    """

    def __init__(self, storage: Storage, settings: Settings, clock: Clock, board: Board, close: Close) -> None:
        self._storage, self._settings, self._clock, self._board, self._close = storage, settings, clock, board, close
        self._courses: dict[str, _Course] = {}
        self._tidying = Tidying(storage, settings)
        self._cursor = 0
        self._tidied = self._looked = clock.monotonic()

    def restore(self) -> None:
        """Bring all rankers to where the log ends now."""
        self._board.feed.wanted = True
        last = self._storage.last_number()
        self._board.refresh(self._storage)  # behind that: of a ranker that is made later, the log will tell
        for name, ranker in list(self._board.rankers.items()):
            self._begin(name, ranker, last)
        self._cursor = last

    def forget(self) -> None:
        """Lead no more."""
        self._board.feed.wanted = False
        for ranker in self._board.rankers.values():
            ranker.machine = None

    def _begin(self, name: str, ranker: Ranker, last: int) -> None:
        """Restore one ranker: its newest checkpoint, and the events since."""
        machine = Machine(ranker.definition, self._fetcher(name), Versions(self._storage, ranker.definition).state)
        for body in checkpoints(self._storage, name):
            machine.restore(body)
            break
        course = _Course(machine, self._clock.monotonic())
        time = ranker.definition.created
        for event in events(self._storage, name, machine.number, last):
            machine.apply(event)
            course.unsaved_events += 1
            time = event.time if event.kind == "published" else time
        for key, entry in machine.open.items():
            course.deadlines[key] = self._deadline(machine, entry.time)
        versions = Versions(self._storage, ranker.definition)
        newest = versions.load()
        if machine.version > 1 and (newest is None or newest.version < machine.version):
            versions.save(newest := Model.of(machine, time))  # the last leader got no further than to announce it
        if newest is not None:
            self._board.serve(name, newest)
        self._courses[name] = course
        ranker.machine = machine

    def _fetcher(self, name: str) -> Callable[[str], Shown | None]:
        def fetch(key: str) -> Shown | None:
            recent = self._board.recent.get(name, key)
            if recent is not None and recent.shown is not None:
                return recent.shown
            event = self._storage.find(name, "ranked", key)
            return None if event is None else unpack(event.body, Shown)

        return fetch

    def _deadline(self, machine: Machine, made: float) -> float:
        """When a list is to be closed. Only here is the clock asked that may jump: a list is never older than its time."""
        most = machine.definition.spec.close_after
        age = min(max(self._clock.time() - made, 0.0), most)
        return self._clock.monotonic() + most - age

    def step(self) -> bool:
        """Apply what is new, and do what is due; return whether there is more to do at once."""
        self._save_versions()
        found = self._board.feed.take(self._storage, self._cursor, CHUNK)
        started = perf_counter()
        for event in found:
            self._take(event)
            self._cursor = event.number
            if perf_counter() - started > SLICE:
                sleep(0)  # let those who answer requests go first
                started = perf_counter()
        self._save_versions()
        self._look_after(found)
        published = self._publish()
        if len(found) < CHUNK and self._clock.monotonic() - self._tidied >= self._settings.tidy_every:
            self.tidy()
        return published or len(found) == CHUNK

    def _take(self, event: Event) -> None:
        if event.ranker == RANKERS:
            ranker = self._board.define(event)
            if event.key not in self._courses:
                self._begin(event.key, ranker, event.number)
            return
        course = self._courses.get(event.ranker)
        if course is None or event.number <= course.machine.number:
            return
        closed = course.machine.apply(event)
        course.unsaved_events += 1
        if event.kind == "ranked":
            course.deadlines[event.key] = self._deadline(course.machine, event.time)
        elif event.kind == "published":
            course.unsaved = Model.of(course.machine, event.time)
        elif event.kind == "control":
            course.urgent = True
        if closed is not None:
            course.deadlines.pop(closed.key, None)
            course.asked.pop(closed.key, None)
            if (recent := self._board.recent.get(event.ranker, closed.key)) is not None:
                recent.closed = True  # also where another process has closed it
            self._tell(event.ranker, closed)

    def _tell(self, name: str, closed: Closed) -> None:
        if closed.trouble is not None:
            logger.error("%s", closed.trouble)
            self._board.observer.failed(name, "learn")
        self._board.observer.closed(name, "learned", closed.norm, closed.clicks, closed.reciprocal_rank)

    def _look_after(self, found: list[Event]) -> None:
        """Close, write down and tell what is due: of the rankers with events now, and of all now and then."""
        now, names = self._clock.monotonic(), {event.ranker for event in found}
        if now - self._looked >= self._settings.poll_every:
            self._looked, names = now, set(self._courses)
        # How far behind the learner is: the age of the newest event that it has taken, while there are more.
        age = max(0.0, self._clock.time() - found[-1].time) if len(found) == CHUNK else 0.0
        for name in names & self._courses.keys():
            course = self._courses[name]
            self._sweep(name, course)
            self._checkpoint(name, course)
            self._board.observer.open_impressions(name, len(course.machine.open))
            self._board.observer.lag(0, age)

    def _save_versions(self) -> None:
        """Keep the versions that were announced, and serve them: never one that a crash could take away."""
        for name, course in self._courses.items():
            if course.unsaved is not None:
                Versions(self._storage, course.machine.definition).save(course.unsaved)
                self._board.serve(name, course.unsaved)
                course.unsaved = None

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
            self._storage.append(
                [NewEvent(name, "published", str(body.version), time, pack(body)) for name, body in bodies]
            )
        for _, course in due:
            course.published_at, course.urgent = now, False
        return bool(due)

    def _sweep(self, name: str, course: _Course) -> None:
        """Ask for the lists to be closed whose time is over, and for the oldest where there are too many."""
        now, machine = self._clock.monotonic(), course.machine
        surplus = len(machine.open) - len(course.asked) - self._settings.max_open
        due: dict[str, int] = {}
        for key, deadline in course.deadlines.items():
            if len(due) >= CHUNK or (deadline > now and len(due) >= surplus):
                break
            due[key] = machine.open[key].number
        for key in due:
            del course.deadlines[key]
            course.asked[key] = now + PATIENCE
        for key, until in list(course.asked.items())[:CHUNK]:
            if until > now:
                break
            course.deadlines[key] = now
            del course.asked[key]
        if due:
            self._close(name, due)

    def _checkpoint(self, name: str, course: _Course, now: bool = False) -> None:
        """Write down where a ranker stands, now and then, so that a restart has little to do."""
        machine = course.machine
        behind, waited = course.unsaved_events, self._clock.monotonic() - course.saved_at
        enough = behind >= CHECKPOINT_EVENTS + len(machine.open) // 10 or waited >= CHECKPOINT_SECONDS
        if behind and (enough or now) and course.unsaved is None:
            self._storage.save_snapshot(name, machine.number, self._clock.time(), machine.checkpoint())
            course.unsaved_events, course.saved_at = 0, self._clock.monotonic()

    def tidy(self) -> None:
        """Remove what is older than it needs to be."""
        for name, course in self._courses.items():
            self._checkpoint(name, course, now=True)
            self._tidying.tidy(name, course.machine, self._clock.time())
        self._tidied = self._clock.monotonic()

    def finish(self) -> None:
        """Apply what is there, and write down where all rankers stand."""
        last, before = self._storage.last_number(), -1
        while before < self._cursor < last:  # the last may never come, where it was pruned
            before = self._cursor
            self.step()
        self._save_versions()
        for name, course in self._courses.items():
            self._checkpoint(name, course, now=True)
