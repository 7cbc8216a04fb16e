"""The rankers of a store and their versions, as this process knows them; shared by all threads of a service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from threading import Lock
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.remembered import Remember
from duelrank.core.errors import NotReady, StoreCorrupt, UnknownName
from duelrank.core.types import Memory, State
from duelrank.evidence import Guard
from duelrank.service import log
from duelrank.service.definition import Definition
from duelrank.service.experiment_machine import ExperimentMachine, ExperimentStatus
from duelrank.service.experiments import ExperimentDefinition
from duelrank.service.intake import DocumentReader, FeedbackTroubles
from duelrank.service.machine import (
    EventMachine,
    LearnedStep,
    Machine,
    OpenImpression,
    Status,
    Tally,
    without_queries,
)
from duelrank.service.settings import Observer
from duelrank.storage import Event, EventLog, SnapshotInfo, Storage, StoredSnapshot

logger = logging.getLogger("duelrank.service")

T = TypeVar("T")

#: Which older versions are kept: the first of each period, up to an age, both in seconds. One per minute for an hour, one per
#: hour for a day, one per day for a month.
THINNED = ((60.0, 3600.0), (3600.0, 86400.0), (86400.0, 31 * 86400.0))
#: Bytes of a piece of a full memory of queries. A value of SQLite or PostgreSQL has at most a gigabyte, and a larger one would be
#: copied several times to save it.
PIECE = 1 << 27
#: Bytes that each change of a memory counts for in addition, because many small ones are slow to list and to read.
CHANGE = 1 << 15


class StoredVersion(msgspec.Struct, array_like=True):
    """A model version."""

    version: int
    number: int
    time: float
    frozen: bool
    tally: Tally
    open: int
    state: bytes
    pin: tuple[int, bytes] | None = None
    spec: log.StoredSpec | None = None  # if it has changed since the ranker was created
    guard: Guard | None = None
    labels: dict[int, str] = {}
    imitated: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a ranker: its definition and state, from which impressions are made, and how far the ranker had come."""

    version: int
    time: float
    frozen: bool
    status: Status
    definition: Definition
    state: State
    pin: tuple[int, State] | None = None

    @property
    def number(self) -> int:
        """The number of the event that published it."""
        return self.status.number

    @property
    def learned_share(self) -> float:
        """The share of lists, guard lists excluded, that it decides."""
        return 1.0 if self.status.guard is None else self.status.guard.learned_share

    @property
    def imitates(self) -> bool:
        """Whether it shows the client's order and learns to imitate it."""
        return self.definition.spec.imitates(self.status.imitated, self.status.tally.learned)

    @classmethod
    def first(cls, definition: Definition) -> Version:
        """Return the version of a new ranker."""
        guard = definition.spec.guard
        status = Status(definition.number, Tally(), 0, 0, None if guard is None else Guard.begin(guard))
        return cls(1, definition.created, definition.spec.mode == "frozen", status, definition, definition.start)

    @classmethod
    def of(cls, machine: Machine, time: float) -> Version:
        """Return the version that a machine has just published."""
        head = (machine.version, time, machine.frozen, machine.status)
        return cls(*head, machine.definition, machine.served, machine.pin)


class VersionStore:
    """Saves and loads the versions of one ranker; each is immutable, and stored under its number.

    Parameters
    ----------
    storage
        The store.
    definition
        Definition of the ranker at its creation.
    """

    def __init__(self, storage: Storage, definition: Definition) -> None:
        self._snapshots, self._definition, self._name = storage.snapshots, definition, definition.spec.name

    def save(self, version: Version) -> None:
        """Save a version; saving it again changes nothing."""
        status = version.status
        pin = None if version.pin is None else (version.pin[0], log.pack_state(version.pin[1]))
        spec = None if version.definition is self._definition else log.StoredSpec.of(version.definition.spec)
        head = (version.version, version.number, version.time, version.frozen, status.tally, status.open)
        rest = (status.guard, status.labels, status.imitated, status.waiting)
        body = log.pack(StoredVersion(*head, log.pack_state(version.state), pin, spec, *rest))
        self._snapshots.save(self._name, log.VERSION, version.version, version.time, body)

    def load(self, version: int | None = None) -> Version | None:
        """Return a version, or the newest; None if it is not there."""
        found = self._snapshots.load(self._name, log.VERSION, version)
        if found is None:
            return None
        stored, recipe = log.unpack(found.body, StoredVersion), self._definition.algorithm
        definition = self._definition if stored.spec is None else self._definition.with_spec(stored.spec.read())
        state = log.unpack_state(stored.state, recipe)
        rest = (state.updates, stored.guard, stored.labels, stored.imitated, stored.waiting)
        status = Status(stored.number, stored.tally, stored.open, *rest)
        pin = None if stored.pin is None else (stored.pin[0], log.unpack_state(stored.pin[1], recipe))
        return Version(stored.version, stored.time, stored.frozen, status, definition, state, pin)

    def state(self, version: int) -> State | None:
        """Return the state of a version, None if it is not there."""
        found = self.load(version)
        return None if found is None else found.state

    def list(self) -> list[SnapshotInfo]:
        """Return the saved versions, oldest first; their number is the version."""
        return self._snapshots.list(self._name, log.VERSION)

    def retained(self, keep: int, now: float, labels: Collection[int]) -> Sequence[SnapshotInfo]:
        """Return the versions that a rollback can use: the newest, fewer of older ones, and those with a label."""
        found = self.list()
        kept = {info.number for info in found[-keep:]}.union(labels, thinned(found, now))
        return [info for info in found if info.number in kept]

    def event_of(self, version: int) -> int | None:
        """Return the number of the event that published a version, None if the version is not there."""
        found = self._snapshots.load(self._name, log.VERSION, version)
        return None if found is None else log.unpack(found.body, StoredVersion).number

    def prune(self, keep: int, now: float, labels: Collection[int], needed: Collection[int]) -> int:
        """Remove all versions except the retained and the needed ones."""
        retained = {info.number for info in self.retained(keep, now, labels)}
        return self._snapshots.prune(self._name, log.VERSION, keep, retained.union(needed))


class StoredStep(msgspec.Struct, array_like=True):
    """The last step of a ranker, which the learner saves when somebody wants to see it."""

    id: str
    impression: OpenImpression
    spec: log.StoredSpec
    made_by: bytes
    before: bytes

    @classmethod
    def of(cls, step: LearnedStep) -> StoredStep:
        """Return the stored form of a step."""
        assert step.made_by is not None  # it was there when the step was made
        states = log.pack_state(step.made_by), log.pack_state(without_queries(step.before))
        return cls(step.id, step.impression, log.StoredSpec.of(step.definition.spec), *states)

    def read(self, created: Definition) -> LearnedStep:
        """Return the step of a ranker."""
        definition = created.with_spec(self.spec.read())
        states = [log.unpack_state(body, created.algorithm) for body in (self.made_by, self.before)]
        return LearnedStep(self.id, self.impression, definition, *states)


class StoredMemory(msgspec.Struct, array_like=True):
    """Records of queries that have changed; or without any, how many pieces of a full memory have them.

    ``rate`` are the clicks and views of all queries, with which boosts are computed, and ``lists`` the number of counted lists.
    Changes that forget something have no records, but ``reset``: the full memory of the same event has what is left.
    """

    records: bytes
    rate: tuple[float, float]
    lists: int
    reset: bool = False
    pieces: int = 0


class MemoryStore:
    """Saves and loads what a ranker remembers of queries: from time to time all of it, and otherwise what has changed.

    A snapshot has the number of the last event that it covers. That of a checkpoint is the newest full one up to its number, with
    the changes between the two. A full one is in pieces, each of a kind of its own.

    Parameters
    ----------
    storage
        The store.
    remember
        The memory of the ranker.
    name
        Name of the ranker.
    """

    def __init__(self, storage: Storage, remember: Remember, name: str) -> None:
        self._snapshots, self._remember, self._name = storage.snapshots, remember, name

    def save_changes(self, memory: Memory, before: Memory, number: int, time: float) -> int:
        """Save what has changed since an earlier memory; return the number of bytes that this counts for."""
        records = self._remember.table.records(memory, int(before["lists"][0]) - 1, before)
        return CHANGE + self._save(log.MEMORY_CHANGES, memory, number, time, _bytes(records))

    def save_all(self, memory: Memory, number: int, time: float, reset: bool = False) -> None:
        """Save everything; with ``reset``, those who follow the changes forget what is not in it."""
        kinds, saved = self._pieces(), 0
        for saved, records in enumerate(self._remember.table.pieces(memory, PIECE), 1):
            self._snapshots.save(self._name, _piece(saved - 1), number, time, _bytes(records))
        for kind in kinds[saved:]:  # of a larger memory, which may have what is forgotten
            self._snapshots.save(self._name, kind, number, time, b"")
        self._save(log.MEMORY, memory, number, time, pieces=saved)  # last: those that are listed are complete
        if reset:
            self._save(log.MEMORY_CHANGES, memory, number, time, reset=True)

    def _save(
        self,
        kind: str,
        memory: Memory,
        number: int,
        time: float,
        records: bytes = b"",
        reset: bool = False,
        pieces: int = 0,
    ) -> int:
        clicks, views = memory["rate"].tolist()
        body = log.pack(StoredMemory(records, (clicks, views), int(memory["lists"][0]), reset, pieces))
        self._snapshots.save(self._name, kind, number, time, body)
        return len(body)

    def load(self, up_to: int | None = None) -> tuple[Memory, int]:
        """Return the memory, as far as it was saved up to an event, and the number of the last event that it covers."""
        return self._changed(*self._newest_full(up_to), up_to)

    def follow(self, memory: Memory, after: int) -> tuple[Memory, int]:
        """Return a memory that covers the events up to ``after`` with the changes since then; a new one if they are gone."""
        while True:
            begin = self._newest_full() if not memory or self._gone(after) else (memory, after)
            found = self._changed(*begin)
            if not self._gone(begin[1]):
                return found
            memory = {}  # the leader has removed changes while they were read

    def _gone(self, after: int) -> bool:
        """Whether changes after an event may have been removed, because a full memory has them."""
        return min(self._numbers(log.MEMORY), default=0) > after

    def _newest_full(self, up_to: int | None = None) -> tuple[Memory, int]:
        full = (number for number in self._numbers(log.MEMORY) if up_to is None or number <= up_to)
        number = max(full, default=0)
        return self._full(number), number

    def _full(self, number: int) -> Memory:
        """Return the full memory of an event; an empty one if it was removed meanwhile, which the caller finds out."""
        empty = self._remember.start()
        head = self._snapshots.load(self._name, log.MEMORY, number)
        if head is None:
            return empty
        stored = log.unpack(head.body, StoredMemory)
        memory = self._merged(empty, b"", stored)
        for place in range(stored.pieces):
            piece = self._snapshots.load(self._name, _piece(place), number)
            if piece is None:
                return empty
            memory = self._merged(memory, piece.body, stored)
        return memory

    def bytes_since_full(self) -> int:
        """Return the number of bytes that the changes since everything was saved count for."""
        full = max(self._numbers(log.MEMORY), default=0)
        return sum(
            CHANGE + info.size for info in self._snapshots.list(self._name, log.MEMORY_CHANGES) if info.number > full
        )

    def _numbers(self, kind: str) -> list[int]:
        return [info.number for info in self._snapshots.list(self._name, kind)]

    def _pieces(self) -> list[str]:
        """Return the kinds of the pieces of all full ones."""
        return list(takewhile(lambda kind: self._snapshots.list(self._name, kind), map(_piece, count())))

    def _changed(self, memory: Memory, after: int, up_to: int | None = None) -> tuple[Memory, int]:
        for number in self._numbers(log.MEMORY_CHANGES):
            if number <= after or (up_to is not None and number > up_to):
                continue
            found, after = self._snapshots.load(self._name, log.MEMORY_CHANGES, number), number
            if found is not None:  # else a full one has replaced it meanwhile, which the caller finds out
                stored = log.unpack(found.body, StoredMemory)
                memory = self._full(number) if stored.reset else self._merged(memory, stored.records, stored)
        return memory, after

    def _merged(self, memory: Memory, records: bytes, stored: StoredMemory) -> Memory:
        after = self._remember.table.merged(memory, np.frombuffer(records, "<i8").astype(np.int64))
        return {**after, "rate": np.array(stored.rate), "lists": np.array([stored.lists])}

    def prune(self, oldest: int) -> None:
        """Remove what no checkpoint from this number on needs."""
        full = self._numbers(log.MEMORY)
        first = max((number for number in full if number <= oldest), default=0)
        if first:
            kept = [number for number in full if number >= first]
            for kind in (log.MEMORY, *self._pieces()):
                self._snapshots.prune(self._name, kind, 1, kept)
            changes = [number for number in self._numbers(log.MEMORY_CHANGES) if number > first]
            self._snapshots.prune(self._name, log.MEMORY_CHANGES, 1, changes)


def _piece(place: int) -> str:
    """Return the kind of a piece of a full memory."""
    return f"{log.MEMORY}-{place}"


def _bytes(records: NDArray[np.int64]) -> bytes:
    return records.astype("<i8").tobytes()


def thinned(versions: Sequence[SnapshotInfo], now: float) -> set[int]:
    """Return the versions that are kept because of their age: the first of each minute, hour and day, for some time.

    The first version of a day is also the first of its first hour and of its first minute, so the result does not depend on how
    often versions were removed before.
    """
    kept: set[int] = set()
    for seconds, age in THINNED:
        first: dict[float, SnapshotInfo] = {}
        for info in versions:
            first.setdefault(info.time // seconds, info)
        kept.update(info.number for info in first.values() if abs(now - info.time) <= age)
    return kept


def newest_checkpoint(storage: Storage, name: str) -> bytes | None:
    """Return the newest intact checkpoint of a ranker; raise if all are damaged and events were dropped."""
    return _newest_intact(storage, name, lambda found: found.body)


def restore_newest(machine: EventMachine, storage: Storage) -> bool:
    """Let a machine continue from its newest intact checkpoint; return whether there is one."""
    name, before = machine.name, machine.number
    found = _newest_intact(storage, name, lambda found: restore_from(machine, storage, found))
    if found is None and machine.number != before:
        raise StoreCorrupt(f"no checkpoint of {name!r} can be read")
    return found is not None


def restore_from(machine: EventMachine, storage: Storage, found: StoredSnapshot) -> int:
    """Let a machine continue from a checkpoint, with the memory of queries that belongs to it; return its number."""
    remember = machine.definition.remember if isinstance(machine, Machine) else None
    queries = None if remember is None else MemoryStore(storage, remember, machine.name).load(found.number)[0]
    machine.restore(found.body, queries)
    return machine.number


def _newest_intact(storage: Storage, name: str, read: Callable[[StoredSnapshot], T]) -> T | None:
    """Return what is read from the newest checkpoint that can be read."""
    damage: StoreCorrupt | None = None
    for info in reversed(storage.snapshots.list(name, log.CHECKPOINT)):
        try:
            found = storage.snapshots.load(name, log.CHECKPOINT, info.number)
            if found is not None:
                return read(found)
        except StoreCorrupt as error:
            damage = error
    if damage is not None and storage.log.dropped(name) > 0:
        raise damage
    return None


def new_events(
    events: EventLog, name: str, machine: EventMachine, up_to: int, lists: log.ListReader
) -> Iterator[Event]:
    """Yield the events of a ranker that a machine has not applied; sets those from which learning has failed before.

    ``lists`` is the reader of the machine, which prepares for each block of events.
    """
    for found in log.read_chunks(events, name, machine.number, up_to):
        lists.expect(found, machine.has_feedback)
        lessons = [event.number for event in found if event.kind in machine.may_fail]
        machine.failures = _failures(events, name, lessons)
        yield from found
    machine.failures = ()


def _failures(events: EventLog, name: str, numbers: list[int]) -> frozenset[int]:
    """Return those of the events from which learning has failed.

    The record of a leader that hung has no effect if its successor could learn, and has published since.
    """
    recorded = {
        event: log.unpack(event.body, log.Failed).version
        for event in events.find(name, log.FAILED, [str(each) for each in numbers]).values()
    }
    next_versions = events.find(name, log.PUBLISHED, [str(version + 1) for version in recorded.values()])
    published = {int(key): event.number for key, event in next_versions.items()}
    return frozenset(
        int(event.key)
        for event, version in recorded.items()
        if event.number < published.get(version + 1, event.number + 1)
    )


class Notifier:
    """Wakes coroutines that wait for a change that another thread makes."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    def bind(self) -> None:
        """Use the running event loop."""
        self._loop, self._changed = asyncio.get_running_loop(), asyncio.Event()

    def notify(self) -> None:
        """Wake the waiting coroutines; from any thread."""
        self.call(self._wake)

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a function in the event loop, if there is one; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> None:
        """Wait for a condition, which is evaluated after each change; raise `TimeoutError` if it takes too long."""
        async with asyncio.timeout(timeout):
            while not condition():
                if self._loop is None:
                    raise NotReady("the service was not started")
                await self._changed.wait()


class Ranker:
    """One ranker: its creation, the version that makes impressions, and its machine if this process leads."""

    __slots__ = ("created", "followed", "machine", "reader", "status", "troubles", "version")

    def __init__(self, created: Definition) -> None:
        self.created = created
        self.version = Version.first(created)  # replaced, never changed
        self.status: Status = self.version.status
        self.machine: Machine | None = None
        self.reader: DocumentReader | None = None  # of the requests to the version
        self.troubles = FeedbackTroubles()  # of this process
        #: What the leader, another process, remembers of queries, and the number of the last event that it covers.
        self.followed: tuple[Memory, int] = ({}, 0)

    @property
    def remembered(self) -> Memory:
        """What is remembered of queries; in the leader, up to the last event that was applied."""
        machine = self.machine
        return self.followed[0] if machine is None else machine.remembered

    @property
    def name(self) -> str:
        """The name of the ranker."""
        return self.created.spec.name

    @property
    def actions(self) -> Mapping[str, float]:
        """Weights of actions by name."""
        return self.version.definition.spec.actions

    def newest_status(self) -> Status:
        """Return how far the ranker has come; in the leader, up to the last event that was applied."""
        if (machine := self.machine) is not None:
            return machine.status
        return max(self.status, self.version.status, key=lambda each: each.number)


class Experiment:
    """One experiment: its definition, how far it has come, and its machine if this process leads."""

    __slots__ = ("created", "machine", "status", "troubles")

    def __init__(self, created: ExperimentDefinition) -> None:
        self.created = created
        self.status: ExperimentStatus = ExperimentMachine(created, lambda id, number: None).status
        self.machine: ExperimentMachine | None = None
        self.troubles = FeedbackTroubles()  # of this process

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.created.spec.name

    @property
    def actions(self) -> Mapping[str, float]:
        """Weights of actions by name."""
        return self.created.spec.actions

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return (self.status if self.machine is None else self.machine).stopped is not None

    def newest_status(self) -> ExperimentStatus:
        """Return how far the experiment has come; in the leader, up to the last event that was applied."""
        return self.status if self.machine is None else self.machine.status


class Rankers:
    """The rankers and experiments of a store by name; no two of them have the same name.

    Parameters
    ----------
    storage
        The store.
    learns
        Whether this process may learn, so that the kernels of learning are compiled, too.
    """

    def __init__(self, storage: Storage, learns: bool = True) -> None:
        self._storage, self.learns = storage, learns
        self.by_name: dict[str, Ranker] = {}
        self.experiments: dict[str, Experiment] = {}
        #: Rankers and experiments that cannot be served, with the number of their creation, and the reason.
        self.broken: dict[str, tuple[int, str]] = {}
        self.observer = Observer()
        #: Notified when another version of a ranker is served, or a ranker was deleted.
        self.changes = Notifier()
        self._read_up_to, self._refreshing = 0, Lock()
        #: Salt of the hashes of user ids; None until the first feedback with a user.
        self.salt: bytes | None = None

    def __getitem__(self, name: str) -> Ranker:
        return self._found("ranker", self.by_name, name)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def get(self, name: str) -> Ranker | Experiment | None:
        """Return a ranker or an experiment, None if there is none of this name."""
        return self.by_name.get(name) or self.experiments.get(name)

    def items(self) -> list[tuple[str, Ranker | Experiment]]:
        """Return the present rankers and experiments with their names."""
        return [*self.by_name.items(), *self.experiments.items()]

    def experiment(self, name: str) -> Experiment:
        """Return an experiment; raise if there is none of this name."""
        return self._found("experiment", self.experiments, name)

    def _found(self, what: str, known: Mapping[str, T], name: str) -> T:
        if name in self.broken:
            raise NotReady(f"the {what} {name!r} cannot be served: {self.broken[name][1]}")
        if name not in known and self.get(name) is not None:
            raise UnknownName(f"{name!r} is {'an experiment' if what == 'ranker' else 'a ranker'}, not a {what}")
        if name not in known:
            raise UnknownName.among(what, name, known)
        return known[name]

    def refresh(self) -> None:
        """Read which rankers and experiments were created or deleted since the last call."""
        with self._refreshing:
            while found := self._storage.log.read(self._read_up_to, 1000, log.RANKERS):
                for event in found:
                    self._apply(event)
                    self._read_up_to = event.number

    def _apply(self, event: Event) -> None:
        if event.kind == log.CREATED:
            try:
                self._add(event, log.unpack(event.body, log.Created))
            except Exception as error:  # such as a recipe of an extension that is not loaded; others are served
                logger.error("%r cannot be served: %s", event.key, error)
                self.broken[event.key] = event.number, str(error)
        elif event.kind == log.DELETED:
            deleted = log.unpack(event.body, log.Deleted)
            self.broken.pop(deleted.name, None)
            known = self.get(deleted.name)
            if known is not None and known.created.number <= deleted.number:
                self.by_name.pop(deleted.name, None)
                self.experiments.pop(deleted.name, None)
                self.observer.deleted(deleted.name)
                self.changes.notify()
        elif event.kind == log.SALT:
            self.salt = log.unpack(event.body, bytes)

    def _add(self, event: Event, created: log.Created) -> None:
        if created.experiment is None:
            definition = Definition.read(event, created)
            definition.warm_up(self.learns)
            self.by_name[event.key] = Ranker(definition)
        else:
            experiment = ExperimentDefinition.read(event, created)
            experiment.warm_up()
            self.experiments[event.key] = Experiment(experiment)

    def serve(self, name: str, version: Version) -> None:
        """Make impressions from this version, unless a newer one is served."""
        ranker = self.by_name.get(name)
        if ranker is not None and version.version > ranker.version.version and version.number > ranker.created.number:
            ranker.version = version
            self.observer.published(name, version.version)
            self.changes.notify()
