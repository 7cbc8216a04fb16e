"""The leader: the one process that reads the event log, applies it and publishes versions; `follower` has the others."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import takewhile
from threading import Event as Flag
from threading import Thread
from time import perf_counter, sleep
from typing import Protocol

from duelrank.core.compiling import kernel_folder
from duelrank.core.errors import StorageFailure, StoreCorrupt, StoreLocked
from duelrank.evidence import Guard
from duelrank.service import log
from duelrank.service.channel import Beat, LearnerChannel, Look
from duelrank.service.definition import Definition, GuardEvent, RankerSpec, hash63, normalized
from duelrank.service.experiment_machine import ExperimentMachine
from duelrank.service.follower import RETRY_SECONDS, Closer, Follower
from duelrank.service.history import MAX_POINTS, STEPS, block_kind
from duelrank.service.machine import ClosedImpression, EventMachine, Machine
from duelrank.service.rankers import (
    Experiment,
    MemoryStore,
    Notifier,
    Ranker,
    Rankers,
    StoredStep,
    Version,
    VersionStore,
    new_events,
    restore_newest,
)
from duelrank.service.retention import Capacity, Retention
from duelrank.service.settings import DEFAULT_REPRESENTATION, LEASE, ONE_SERVER, Clock, Observer, Settings
from duelrank.service.views import event_sentence, experiment_info, guard_info
from duelrank.service.webhooks import Webhooks
from duelrank.storage import Event, Lease, NewEvent, Storage

logger = logging.getLogger("duelrank.service")

#: Seconds: to collect some events before they are read; between two attempts to become the leader; between two heartbeats of the
#: leader.
GATHER_SECONDS, ELECTION_SECONDS, HEARTBEAT_SECONDS = 0.01, 1.0, 1.0
#: The number of events that are read at once, and of impressions that are closed at once.
BATCH = 500
#: Seconds of learning after which other threads may run.
YIELD_SECONDS = 0.002
#: Seconds after which a closing that is not in the log is repeated.
CLOSE_TIMEOUT = 5.0
#: A checkpoint is written after this number of events, plus a tenth of the open impressions; or after this number of seconds.
CHECKPOINT_EVENTS, CHECKPOINT_SECONDS = 2000, 60.0
#: The memory of queries is saved as a whole if its changes count for as many bytes as it has, and at least this number.
MEMORY_BYTES = 1 << 18
#: Seconds until old data is removed again, if there was much of it.
TIDY_AGAIN_SECONDS = 1.0
#: Seconds between two notes for followers: how far a ranker has come, and its recent history.
STATUS_SECONDS, HISTORY_SECONDS = 0.5, 2.0
#: The maximum number of characters of the stored reason of a failure.
MAX_REASON = 500
#: Seconds between two messages of a learner that works.
BEAT_SECONDS = 0.5


class Overtaken(StorageFailure):
    """Another leader has overtaken this one and has removed data that this one needs, so it cannot continue."""


class Bell(Protocol):
    """Wakes a thread, such as a `threading.Event`."""

    def set(self) -> None:
        """Wake it."""

    def clear(self) -> None:
        """Let the next `wait` wait."""

    def wait(self, seconds: float) -> object:
        """Wait until it is set, for at most some seconds."""


class Leader(Follower):
    """Leads if it can acquire the lease; otherwise it follows, and tries again at intervals.

    Parameters
    ----------
    storage, settings, rankers
        As in `Background`.
    clock
        Clock of the service.
    recent
        The newest impressions of this process.
    tail
        The newest events of this process.
    channel
        Messages from and to the processes that serve, if this one only learns.
    prepare
        Called once, when there is nothing else to do.
    """

    _task = "learning"

    def __init__(
        self,
        storage: Storage,
        settings: Settings,
        rankers: Rankers,
        clock: Clock,
        recent: log.ImpressionCache,
        tail: log.Tail,
        channel: LearnerChannel | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(storage, settings, rankers)
        self._prepare = prepare
        self._clock, self._recent, self._tail = clock, recent, tail
        self._channel, self._followed = channel, storage.shared or channel is not None
        self._woken: Bell = channel or Flag()
        self._cold = list(settings.warm_up)  # recipes that are not compiled yet
        tail.changed = self._woken
        self._webhooks = Webhooks(private=settings.private_webhooks)
        self._closer: Closer | None = None
        self._term: Term | None = None
        self._lease: Lease | None = None
        self._asked_at = clock.monotonic() - 1e9
        self._lease_lost = Flag()
        self._heartbeat = Thread(target=self._beat, name="duelrank-heartbeat", daemon=True)

    @property
    def leads(self) -> bool:
        """Whether this process is the leader."""
        return self._term is not None

    @property
    def applied(self) -> int | None:
        """The number of the last event that was applied; None if another process leads."""
        term = self._term
        return None if term is None else term.applied

    def claim(self) -> None:
        """Acquire a store that only one process may learn from; raise `StoreLocked` if another process has it."""
        if self._storage.shared or self._lease is not None:
            return
        self._lease = self._storage.leases.acquire(LEASE)
        if self._lease is None:
            raise StoreLocked(ONE_SERVER)

    def start(self, closer: Closer) -> None:
        """Start the threads; impressions are closed by the closer."""
        self._closer = closer
        super().start(closer)
        self._heartbeat.start()

    def wake(self) -> None:
        """Look for new events at once."""
        self._woken.set()

    def stop(self) -> None:
        """Stop, after what was learned is saved."""
        self._stop.set()
        self.wake()
        super().stop()
        if self._heartbeat.is_alive():
            self._heartbeat.join()
        self._step_down()
        self._webhooks.close()

    def _warm_up(self, at_most: int) -> None:
        """Compile some recipes of the settings, unless the cache has all of them; a failure is no reason not to work."""
        folder, recipes = kernel_folder(), self._settings.warm_up
        done = None if folder is None else folder / f"warmed-{hash63(' '.join((*recipes, DEFAULT_REPRESENTATION))):x}"
        if self._cold and done is not None and done.exists():
            self._cold = []
        now, self._cold = self._cold[:at_most], self._cold[at_most:]
        try:
            for recipe in now:
                began, spec = perf_counter(), RankerSpec("warm-up", recipe, ("a", "b"))
                Definition(normalized(spec, DEFAULT_REPRESENTATION), 0.0).warm_up()
                logger.info("compiled kernels of %s in %.1f s", recipe, perf_counter() - began)
            if now and not self._cold and done is not None:
                done.touch()
        except Exception as error:
            logger.warning("could not compile in advance: %s", error)

    def _run(self) -> None:
        if self._channel is None:  # the first request must not wait
            self._warm_up(len(self._cold))
        while not self._stop.is_set():
            self._pause(self._attempt())
        self._finish()

    def _attempt(self) -> float:
        """Lead or follow once, whatever happens; return the number of seconds until the next time."""
        try:
            more = self._cycle()
            self._report(True, None)
        except Overtaken as error:
            logger.warning("%s", error)
            self._step_down()
            self._asked_at -= ELECTION_SECONDS
            return 0.0
        except Exception as error:
            self._fail(error)
            return 0.0
        if self._cold and not more:  # a learner without anything to learn prepares for rankers that are created later
            self._warm_up(1)
        elif self._prepare is not None and not more:
            self._prepare()
            self._prepare = None
        return 0.0 if more or self._cold else self._settings.poll_every

    def _pause(self, seconds: float) -> None:
        """Wait until there is something to do."""
        if self.failure is not None:
            self._stop.wait(RETRY_SECONDS)
        elif seconds and self.leads:
            self._woken.wait(seconds)
            self._stop.wait(GATHER_SECONDS)
        elif seconds:
            self._stop.wait(seconds)
        self._woken.clear()  # events from here on wake the next pause

    def _beat(self) -> None:
        """Renew the lease and report the lag, in a separate thread: a long computation must not look like a leader that hangs."""
        while not self._stop.wait(HEARTBEAT_SECONDS):
            lease, term = self._lease, self._term
            try:
                if lease is not None and not lease.renew():
                    self._lease_lost.set()
                    self.wake()
            except StorageFailure as error:
                logger.warning("the leader's lease could not be renewed: %s", error)
            with suppress(StorageFailure):  # the leader gets it too, and reports it
                if term is not None:
                    term.report_lag()

    def _fail(self, error: Exception) -> None:
        """Report a failure; unless it is the store's, restore the machines from the store."""
        super()._fail(error)
        if not isinstance(error, StorageFailure):
            self._step_down()

    def _cycle(self) -> bool:
        """Lead or follow once; return whether there is more to do at once."""
        self._elect()
        if self._term is None:
            self._follow()
            return False
        more = self._term.step()
        if self._channel is not None:
            while self._channel.wanted_steps:
                self._term.save_last_step(self._channel.wanted_steps.pop())
        return more

    def _elect(self) -> None:
        """Become the leader if there is none, and stop leading if the lease was lost."""
        now = self._clock.monotonic()
        if self._lease_lost.is_set():
            logger.warning("this process no longer leads: its lease was lost")
            self._step_down()
        elif now - self._asked_at < ELECTION_SECONDS:
            return
        if self._lease is not None and not self._lease.held():
            logger.warning("this process no longer leads: the store has released its lease")
            self._step_down()
        if self._lease is None:
            self._lease_lost.clear()
            self.claim()
            self._lease = self._lease or self._storage.leases.acquire(LEASE)
        if self._lease is not None and self._term is None:
            self._begin_term()
        self._asked_at = now

    def _begin_term(self) -> None:
        assert self._closer is not None
        self._follow()  # what others have published can be served while the rest is restored
        parts = (self._storage, self._settings, self._rankers, self._clock, self._recent, self._tail)
        term = Term(*parts, self._closer, self._webhooks, self._followed)
        term.restore()
        self._term = term
        self._rankers.observer.leading(True)
        logger.info("this process leads: it learns from the event log")

    def _step_down(self) -> None:
        if self._term is not None:
            self._term.end()
            self._rankers.observer.leading(False)
        lease, self._term, self._lease = self._lease, None, None
        if lease is not None:
            lease.release()

    def _finish(self) -> None:
        try:
            self.unsaved = self.failure if self._term is None else None
            if self._term is not None:
                self._term.finish()
        except Exception as error:
            self.unsaved = error
            logger.warning("stopped before everything was saved; the next start does the rest: %s", error)


class _Wake(Notifier):
    """Makes the processes that serve look at the store."""

    def __init__(self, channel: LearnerChannel) -> None:
        super().__init__()
        self._channel = channel

    def notify(self) -> None:
        self._channel.broadcast(Look())


def learn(
    storage: Storage,
    settings: Settings,
    channel: LearnerChannel,
    observer: Observer,
    stopped: Callable[[float], bool],
    when_ready: Callable[[], None] = lambda: None,
    prepare: Callable[[], None] | None = None,
) -> Exception | None:
    """Learn for the processes that serve, until stopped; return why the newest checkpoints could not be saved, if so.

    Parameters
    ----------
    storage, settings, channel
        As in `Leader`.
    observer
        Receives the events of learning.
    stopped
        Waits for at most some seconds, and returns whether to stop.
    when_ready
        Called when all rankers are restored.
    prepare
        Called once, when there is nothing to learn or to compile: compiles more for the processes that serve.
    """
    rankers = Rankers(storage)
    rankers.observer, rankers.changes = observer, _Wake(channel)
    leader = Leader(storage, settings, rankers, Clock(), log.ImpressionCache(0), log.Tail(), channel, prepare)
    leader.start(channel)
    announced = False
    try:
        while not stopped(BEAT_SECONDS):
            failure = leader.failure
            if failure is not None and not leader.ready and not getattr(failure, "retryable", False):
                raise failure
            if leader.learning:
                channel.broadcast(Beat())
            if leader.ready and not announced:
                when_ready()
                announced = True
    finally:
        leader.stop()
    return leader.unsaved


class Progress:
    """The progress of a ranker or experiment through the log: its machine, and what the leader has to remember with it."""

    def __init__(self, created: int, machine: EventMachine, lists: log.ListReader, started: float) -> None:
        #: Number of the event that created it.
        self.created = created
        self.machine, self.lists = machine, lists
        self.unsaved_events, self.saved_at = 0, started
        self.failed: dict[int, str] = {}  # reasons of failures by event, which are not in the log yet
        self.deadlines: dict[str, float] = {}  # of open impressions, by the monotonic clock, the earliest first
        self.closing: dict[str, float] = {}  # impressions whose closing was requested, and when to repeat that
        self.status_number, self.status_at = -1, started - 1e9


class RankerProgress(Progress):
    """The progress of a ranker, which publishes versions and may have a guard and a memory of queries."""

    machine: Machine

    def __init__(self, definition: Definition, machine: Machine, lists: log.ListReader, started: float) -> None:
        super().__init__(definition.number, machine, lists, started)
        self.definition = definition  # at its creation
        self.published_at, self.urgent, self.announced_version = started - 1e9, False, 0
        self.unsaved_version: Version | None = None
        self.saved_memory, self.saved_forgotten, self.memory_bytes = machine.remembered, 0, 0  # as it was last saved
        self.history_number, self.history_at = -1, started - 1e9
        self.reported: tuple[Guard | None, bool, int] = (None, False, 0)  # of the guard
        self.guard_at, self.warned = started - 1e9, False


class ExperimentProgress(Progress):
    """The progress of an experiment."""

    machine: ExperimentMachine
    reported, reported_at = -1, -1e9  # number and time of the last event whose counts were passed to the observer


class Term:
    """One term of a leader: applies the log in order, publishes versions, closes overdue impressions, and saves checkpoints.

    Every action can be repeated by the next leader, with the same result.

    Parameters
    ----------
    storage, settings, rankers, clock, recent, tail
        As in `Leader`.
    closer
        Closes overdue impressions.
    webhooks
        Sends events of guards.
    followed
        Whether other processes serve what this one publishes.
    """

    def __init__(
        self,
        storage: Storage,
        settings: Settings,
        rankers: Rankers,
        clock: Clock,
        recent: log.ImpressionCache,
        tail: log.Tail,
        closer: Closer,
        webhooks: Webhooks,
        followed: bool = False,
    ) -> None:
        self._storage, self._settings, self._clock, self._rankers = storage, settings, clock, rankers
        self._recent, self._tail, self._closer, self._webhooks = recent, tail, closer, webhooks
        self._followed = followed
        self._progress: dict[str, Progress] = {}
        self._retention = Retention(storage, settings)
        self._capacity = Capacity(storage, clock, rankers)
        #: The number of the last event that was applied.
        self.applied = 0
        self._more_to_tidy = False
        self._tidied = self._visited = clock.monotonic()

    # Restoring

    def restore(self) -> None:
        """Restore all rankers up to the end of the log."""
        self._tail.enabled = True
        last = self._storage.log.last_number()
        self._rankers.refresh()  # after that: the log will have the rankers that are created later
        self._retention.purge_deleted()
        for name, each in self._rankers.items():
            self._begin(name, each, last)
        self._record_start()
        self.applied = last

    def _record_start(self) -> None:
        """Append to the log of every ranker that had something to restore that a process begins to learn."""
        time, key, body = self._clock.time(), os.urandom(12).hex(), log.pack(log.Control("start"))
        restored = [name for name, each in self._ranker_progress() if each.machine.number > each.created]
        if restored:
            self._storage.log.append([NewEvent(name, log.CONTROL, key, time, body) for name in restored])

    def end(self) -> None:
        """Stop leading."""
        self._tail.enabled = False
        for _, each in self._rankers.items():
            each.machine = None

    def _ranker_progress(self) -> list[tuple[str, RankerProgress]]:
        """Return the progress of each ranker, without experiments."""
        return [(name, each) for name, each in self._progress.items() if isinstance(each, RankerProgress)]

    def _begin(self, name: str, found: Ranker | Experiment, last: int) -> None:
        """Restore a ranker or an experiment from its newest checkpoint and the events since."""
        if isinstance(found, Ranker):
            self._begin_ranker(name, found, last)
        else:
            self._begin_experiment(name, found, last)

    def _begin_experiment(self, name: str, experiment: Experiment, last: int) -> None:
        created = experiment.created.number
        lists = log.ListReader(self._storage, name, partial(self._recent.get, created), log.unpack_lists)
        machine = ExperimentMachine(experiment.created, lists.impression)
        restore_newest(machine, self._storage)
        progress = ExperimentProgress(created, machine, lists, self._clock.monotonic())
        for event in new_events(self._storage.log, name, machine, last, lists):
            self._apply(name, progress, event)
            progress.unsaved_events += 1
        self._set_deadlines(progress)
        self._record_failures(name, progress)
        self._progress[name] = progress
        experiment.machine = machine

    def _begin_ranker(self, name: str, ranker: Ranker, last: int) -> None:
        versions = VersionStore(self._storage, ranker.created)
        lists = log.ListReader(self._storage, name, partial(self._recent.get, ranker.created.number))
        machine = Machine(ranker.created, lists.impression, versions.state, fetch_features=lists.features)
        restore_newest(machine, self._storage)
        progress = RankerProgress(ranker.created, machine, lists, self._clock.monotonic())
        progress.memory_bytes = self._unmerged_bytes(name, machine)
        time = ranker.created.created
        announced = self._storage.snapshots.load(name, log.LAST_ANNOUNCED)
        for event in new_events(self._storage.log, name, machine, last, lists):
            guard = machine.guard
            self._apply(name, progress, event)
            progress.unsaved_events += 1
            if event.kind == log.CONTROL and (announced is None or event.number > announced.number):
                self._announce(name, guard, machine)  # the last leader has only appended it
            time = event.time if event.kind == log.PUBLISHED else time
        self._set_deadlines(progress)
        self._record_failures(name, progress)
        newest = versions.load()
        if machine.version > 1 and (newest is None or newest.version < machine.version):
            if self._followed:
                # First: a follower that serves the version has what it knows of queries.
                self._save_memory(name, progress)
            versions.save(newest := Version.of(machine, time))  # the last leader has only appended it
        if newest is not None:
            self._rankers.serve(name, newest)
        self._save_blocks(name, progress)
        self._progress[name] = progress
        ranker.machine = machine

    # Reading and applying

    def step(self) -> bool:
        """Apply new events, and do what is due; return whether there may be more to do at once."""
        self._save_versions()
        found = self._tail.read(self._storage.log, self.applied, BATCH)
        self._expect(found)
        started = perf_counter()
        for event in found:
            self._apply_event(event)
            self.applied = event.number
            if perf_counter() - started > YIELD_SECONDS:
                sleep(0)  # let the threads of requests run
                started = perf_counter()
        self._save_versions()
        self._visit(found)
        published = self._act_on_guards() | self._publish()
        if self._clock.monotonic() - self._tidied >= self._settings.tidy_every:
            self.tidy()
        return published or bool(found)

    def _expect(self, events: list[Event]) -> None:
        """Let each ranker prepare for its events among those that are applied next."""
        by_ranker: dict[str, list[Event]] = {}
        for event in events:
            by_ranker.setdefault(event.ranker, []).append(event)
        for name, own in by_ranker.items():
            if (progress := self._progress.get(name)) is not None:
                progress.lists.expect(own, progress.machine.has_feedback)

    def _apply_event(self, event: Event) -> None:
        if event.ranker == log.RANKERS:
            self._apply_creation(event)
            return
        progress = self._progress.get(event.ranker)
        if progress is None or event.number <= progress.machine.number:
            return
        before = progress.machine.close_after
        guard = progress.machine.guard if isinstance(progress, RankerProgress) else None
        closed = self._apply(event.ranker, progress, event)
        progress.unsaved_events += 1
        if progress.machine.close_after != before:
            self._set_deadlines(progress)
        if event.kind == log.IMPRESSION:
            progress.deadlines[event.key] = self._deadline(progress.machine, event.time)
        elif event.kind == log.PUBLISHED and isinstance(progress, RankerProgress):
            progress.unsaved_version = Version.of(progress.machine, event.time)
        elif event.kind == log.CONTROL and isinstance(progress, RankerProgress):
            progress.urgent = progress.machine.changed
            self._announce(event.ranker, guard, progress.machine)
        if closed is not None:
            self._report_closed(event, progress, closed)

    def _apply(self, name: str, progress: Progress, event: Event) -> ClosedImpression | None:
        """Apply an event; if learning fails, raise if another leader has overtaken this one: it may have removed the features."""
        machine = progress.machine
        closed = machine.apply(event)
        if closed is not None and closed.outcome == "failed" and event.number not in machine.failures:
            for info in reversed(self._storage.snapshots.list(name, log.CHECKPOINT)):
                if info.number <= machine.number:
                    break
                with suppress(StoreCorrupt):  # a damaged checkpoint is of no use
                    self._storage.snapshots.load(name, log.CHECKPOINT, info.number)
                    raise Overtaken(f"another process is further with {name!r}: continuing from its checkpoint")
            progress.failed[event.number] = (closed.failure or "")[:MAX_REASON]
        return closed

    def _apply_creation(self, event: Event) -> None:
        """Begin with a ranker or an experiment that was created, or remove one that was deleted."""
        self._rankers.refresh()
        if event.kind == log.DELETED:
            deleted = log.unpack(event.body, log.Deleted)
            self._progress.pop(deleted.name, None)
            self._retention.purge(deleted, event.number)
        created = self._rankers.get(event.key)
        if created is not None and event.key not in self._progress and created.created.number == event.number:
            self._begin(event.key, created, event.number)

    def _report_closed(self, event: Event, progress: Progress, closed: ClosedImpression) -> None:
        name, observer = event.ranker, self._rankers.observer
        if event.kind == log.CLOSED:
            progress.deadlines.pop(closed.id, None)
            progress.closing.pop(closed.id, None)
            if (recent := self._recent.get(progress.created, closed.id)) is not None:
                recent.closed = True  # also if another process has closed it
        if closed.failure is not None:
            logger.error("%s", closed.failure)
            observer.failed(name, "learn")
        if isinstance(progress, ExperimentProgress):
            for outcome in closed.votes if closed.outcome == "learned" else (closed.outcome, *closed.votes):
                observer.experiment_list(name, outcome)
            return
        observer.closed(name, closed.outcome, closed.norm, closed.clicks, closed.reciprocal_rank)
        if closed.skipped:
            observer.skipped(name, closed.skipped)
        for vote in closed.votes:
            observer.guard_list(name, vote)

    def _record_failures(self, name: str, progress: Progress) -> None:
        """Append the events from which learning has failed, before anything that follows from that is saved."""
        version = 0
        if isinstance(progress, RankerProgress):
            version = max(progress.machine.version, progress.announced_version)
        bodies = {str(number): log.pack(log.Failed(version, reason)) for number, reason in progress.failed.items()}
        if bodies:
            time = self._clock.time()
            self._storage.log.append([NewEvent(name, log.FAILED, key, time, body) for key, body in bodies.items()])
            progress.failed.clear()

    # Publishing

    def _save_versions(self) -> None:
        """Save the versions that were published, and serve them: never one that a crash could lose."""
        for name, each in self._progress.items():
            self._record_failures(name, each)
        for name, progress in self._ranker_progress():
            if progress.unsaved_version is not None:
                if self._followed:
                    self._save_memory(name, progress)
                VersionStore(self._storage, progress.definition).save(progress.unsaved_version)
                self._rankers.serve(name, progress.unsaved_version)
                progress.unsaved_version = None
            self._save_blocks(name, progress)

    def _unmerged_bytes(self, name: str, machine: Machine) -> int:
        """Return the bytes of the changes of the memory of queries that the next full one replaces; many if that is urgent."""
        if (remember := machine.definition.remember) is None:
            return 0
        damaged = any(
            info.number > machine.number for info in self._storage.snapshots.list(name, log.CHECKPOINT)
        )  # something prevented the use of the newest checkpoint
        return sys.maxsize if damaged else MemoryStore(self._storage, remember, name).bytes_since_full()

    def _save_memory(self, name: str, progress: RankerProgress) -> None:
        """Save what has changed in the memory of queries, for followers and the next checkpoint."""
        machine = progress.machine
        if (remember := machine.definition.remember) is None or machine.remembered is progress.saved_memory:
            return
        store, memory, reset = MemoryStore(self._storage, remember, name), machine.remembered, machine.forgotten
        if reset == progress.saved_forgotten:
            progress.memory_bytes += store.save_changes(
                memory, progress.saved_memory, machine.number, self._clock.time()
            )
        else:
            store.save_all(memory, machine.number, self._clock.time(), reset=True)
            progress.memory_bytes = 0
        progress.saved_memory, progress.saved_forgotten = memory, reset

    def _tidy_memory(self, name: str, progress: RankerProgress) -> None:
        """Save the whole memory of queries if its changes have become as large, and remove what no checkpoint needs."""
        machine = progress.machine
        checkpoints = self._storage.snapshots.list(name, log.CHECKPOINT)
        if (remember := machine.definition.remember) is None or not checkpoints:
            return
        store = MemoryStore(self._storage, remember, name)
        if progress.memory_bytes > max(MEMORY_BYTES, remember.table.n_bytes(machine.remembered)):
            self._save_memory(name, progress)
            store.save_all(machine.remembered, machine.number, self._clock.time())
            progress.memory_bytes = 0
        store.prune(checkpoints[0].number)

    def _save_blocks(self, name: str, progress: RankerProgress) -> None:
        """Save the finished blocks of the history."""
        done = progress.machine.history.done
        while done:
            step, block = done[0]
            kind, (seconds, points) = block_kind(step), STEPS[step]
            begun = float(block.points[0].at * seconds)
            keep = MAX_POINTS // points + 1
            self._storage.snapshots.save(name, kind, block.number, begun, log.pack(block), keep)
            del done[0]

    def _publish(self) -> bool:
        """Append versions of rankers that have changed; each is served when its event is read from the log."""
        now = self._clock.monotonic()
        due = {
            name: progress.machine.publication()
            for name, progress in self._ranker_progress()
            if progress.machine.changed
            and progress.unsaved_version is None
            and (progress.urgent or now - progress.published_at >= self._settings.publish_every)
        }
        time = self._clock.time()
        if due:
            self._storage.log.append(
                [NewEvent(name, log.PUBLISHED, str(body.version), time, log.pack(body)) for name, body in due.items()]
            )
        for name, progress in self._ranker_progress():
            if name in due:
                progress.published_at, progress.urgent, progress.announced_version = now, False, due[name].version
        return bool(due)

    def _act_on_guards(self) -> bool:
        """Append the alarms and promotions that are due; each happens when its event is read from the log."""
        due = {
            name: each
            for name, progress in self._ranker_progress()
            if (each := progress.machine.watch.due()) is not None
        }
        if due:
            time = self._clock.time()
            self._storage.log.append(
                [NewEvent(name, log.CONTROL, key, time, log.pack(control)) for name, (key, control) in due.items()]
            )
        return bool(due)

    def _announce(self, name: str, before: Guard | None, machine: Machine) -> None:
        """Announce the effect on a guard of an event that was just applied, and record that it was announced."""
        after = machine.guard
        if before is None or after is None or after is before:
            return
        event: GuardEvent
        if after.alarms > before.alarms:
            event = "alarm"
        elif after.promotions > before.promotions:
            event = "promotion"
        elif before.raised and not after.raised:
            event = "resume"
        else:
            return
        info = guard_info(machine.definition.spec, machine.version, machine.status)
        level = logging.ERROR if event == "alarm" else logging.INFO
        logger.log(level, f"guard of {name!r}: {event_sentence(event, info)}")
        self._rankers.observer.guard_event(name, event, info)
        if (address := info.guard.webhook or self._settings.webhook) is not None:
            self._webhooks.send(address, event, info)
        self._storage.snapshots.save(name, log.LAST_ANNOUNCED, machine.number, self._clock.time(), b"", keep=1)

    # Regular work

    def _visit(self, found: list[Event]) -> None:
        """Do the regular work: for rankers with new events at once, and for all at intervals."""
        now, names = self._clock.monotonic(), {event.ranker for event in found}
        if now - self._visited >= self._settings.poll_every:
            self._visited, names = now, set(self._progress)
            self._storage.ping()  # a store that is gone must be noticed, even without requests
        for name in names & self._progress.keys():
            progress = self._progress[name]
            self._close_overdue(name, progress)
            self._checkpoint(name, progress)
            if self._followed:
                self._save_status(name, progress)
            if isinstance(progress, RankerProgress):
                self._report_guard(name, progress)
            elif isinstance(progress, ExperimentProgress):
                self._report_experiment(name, progress)
            self._rankers.observer.open_impressions(name, len(progress.machine.open))

    def _deadline(self, machine: EventMachine, made: float) -> float:
        """Return when to close an impression, by the monotonic clock; the age of an impression is at most its time limit."""
        limit = machine.close_after
        age = min(max(self._clock.time() - made, 0.0), limit)
        return self._clock.monotonic() + limit - age

    def _set_deadlines(self, progress: Progress) -> None:
        """Compute the deadlines of all open impressions, the earliest first."""
        machine = progress.machine
        deadlines = {id: self._deadline(machine, each.time) for id, each in machine.open.items()}
        progress.deadlines = dict(sorted(deadlines.items(), key=lambda item: item[1]))
        progress.closing.clear()

    def _close_overdue(self, name: str, progress: Progress) -> None:
        """Close the impressions whose deadline is over, and the oldest if they and the lists that wait for them are too many."""
        now, machine = self._clock.monotonic(), progress.machine
        surplus = len(machine.open) + machine.order.waiting - len(progress.closing) - self._settings.max_open
        again = takewhile(lambda id: progress.closing[id] <= now, progress.closing)
        due = dict.fromkeys(again, 0)
        for place, (id, deadline) in enumerate(progress.deadlines.items()):
            if len(due) >= BATCH or (deadline > now and place >= surplus):
                break
            due[id] = 0
        for id in due:
            progress.deadlines.pop(id, None)
            progress.closing.pop(id, None)
            progress.closing[id] = now + CLOSE_TIMEOUT
            due[id] = machine.open[id].number
        if due:
            self._closer.close_impressions(name, progress.created, due, self._clock.time())

    def _checkpoint(self, name: str, progress: Progress, now: bool = False) -> None:
        """Save a checkpoint at intervals, so that a restart has little to do."""
        machine = progress.machine
        if isinstance(progress, RankerProgress) and (progress.unsaved_version or progress.machine.history.done):
            return
        behind, waited = progress.unsaved_events, self._clock.monotonic() - progress.saved_at
        enough = behind >= CHECKPOINT_EVENTS + len(machine.open) // 10 or waited >= CHECKPOINT_SECONDS
        if behind and (enough or now):
            if isinstance(progress, RankerProgress):
                self._save_memory(name, progress)  # first: a checkpoint is complete
            self._storage.snapshots.save(name, log.CHECKPOINT, machine.number, self._clock.time(), machine.checkpoint())
            self._retention.note(name, machine)
            progress.unsaved_events, progress.saved_at = 0, self._clock.monotonic()

    def _save_status(self, name: str, progress: Progress) -> None:
        """Save for followers how far a ranker has come, and its recent history."""
        now, time, machine = self._clock.monotonic(), self._clock.time(), progress.machine
        if machine.number != progress.status_number and now - progress.status_at >= STATUS_SECONDS:
            self._storage.snapshots.save(name, log.STATUS, machine.number, time, log.pack(machine.status), keep=1)
            progress.status_number, progress.status_at = machine.number, now
            self._rankers.changes.notify()
        if not isinstance(progress, RankerProgress):
            return
        if machine.number != progress.history_number and now - progress.history_at >= HISTORY_SECONDS:
            body = log.pack(progress.machine.history.copy(progress.machine.step_end()))
            self._storage.snapshots.save(name, log.HISTORY, machine.number, time, body, keep=1)
            progress.history_number, progress.history_at = machine.number, now

    def _report_experiment(self, name: str, progress: ExperimentProgress) -> None:
        """Pass changed counts of an experiment to the observer, at intervals."""
        now, number = self._clock.monotonic(), progress.machine.number
        experiment = self._rankers.experiments.get(name)
        if experiment is None or experiment.created.number != progress.created:
            return  # it was deleted, which the learner has not read yet
        if number != progress.reported and now - progress.reported_at >= STATUS_SECONDS:
            self._rankers.observer.experiment(name, experiment_info(experiment))
            progress.reported, progress.reported_at = number, now

    def save_last_step(self, name: str) -> None:
        """Save the last step of a ranker for followers; an empty one if it has learned from nothing."""
        progress = self._progress.get(name)
        if isinstance(progress, RankerProgress):
            step, number = progress.machine.last_step, progress.machine.number
            body = b"" if step is None else log.pack(StoredStep.of(step))
            self._storage.snapshots.save(name, log.LAST_STEP, number, self._clock.time(), body, keep=1)

    def _report_guard(self, name: str, progress: RankerProgress) -> None:
        """Pass changed evidence of a guard to the observer, at intervals, because computing it takes some time."""
        now, machine, guard = self._clock.monotonic(), progress.machine, progress.machine.guard
        state, before = (guard, machine.imitates, machine.order.waiting), progress.reported
        if state == before or now - progress.guard_at < STATUS_SECONDS:
            return
        info = None if guard is None else guard_info(machine.definition.spec, machine.version, machine.status)
        self._rankers.observer.guard(name, info)
        if before[1] and not machine.imitates:
            logger.info(
                "%r has imitated your order for %d lists, and decides lists from here on", name, machine.imitated
            )
        progress.reported, progress.guard_at = state, now
        warnings = () if info is None else info.warnings
        if warnings and not progress.warned:
            logger.warning("guard of %r: %s", name, "; ".join(warnings))
        progress.warned = bool(warnings)

    def report_lag(self) -> None:
        """Pass the number of events that are not applied yet, and the age of the oldest, to the observer; from any thread."""
        log, applied = self._storage.log, self.applied
        lag = max(0, log.last_number() - applied)
        waiting = log.read(applied, 1) if lag else []
        self._rankers.observer.lag(lag, max(0.0, self._clock.time() - waiting[0].time) if waiting else 0.0)

    def tidy(self) -> None:
        """Remove old data, and measure the store; again soon if more is left."""
        self._retention.purge_again(self._rankers, self.applied)
        more = False
        for name, progress in self._progress.items():
            self._checkpoint(name, progress, now=not self._more_to_tidy)
            more |= self._retention.tidy(name, progress.machine, self._clock.time())
            if isinstance(progress, RankerProgress):
                self._tidy_memory(name, progress)
        self._capacity.measure()
        self._more_to_tidy = more
        self._tidied = self._clock.monotonic() - (self._settings.tidy_every - TIDY_AGAIN_SECONDS if more else 0.0)

    def finish(self) -> None:
        """Apply the rest of the log, and save checkpoints of all rankers."""
        before = -1
        # The last event may be gone, if it was deleted; a step may append some more.
        while before < self.applied < self._storage.log.last_number():
            before = self.applied
            self.step()
        self._save_versions()
        for name, progress in self._progress.items():
            self._checkpoint(name, progress, now=True)
