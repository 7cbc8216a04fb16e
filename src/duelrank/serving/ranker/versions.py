"""Model versions in the store: each is immutable, and kept under its number."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from duelrank.api import RankerSpec
from duelrank.core.errors import StoreCorrupt
from duelrank.core.types import State
from duelrank.guard import Guard
from duelrank.serving.log.bodies import (
    CLOSED,
    FAILED,
    LOGGED,
    PUBLISHED,
    Failed,
    pack,
    pack_state,
    unpack,
    unpack_state,
)
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.machine import Machine, Tally
from duelrank.storage import Event, EventLog, SnapshotInfo, Storage

__all__ = [
    "CHECKPOINT",
    "STATUS",
    "VERSION",
    "Status",
    "Version",
    "Versions",
    "checkpoints",
    "events",
    "thinned",
    "told",
]

#: Kinds of snapshots in a store.
CHECKPOINT, VERSION, STATUS = "checkpoint", "version", "status"
#: Which older versions are kept: the first of each period, up to an age, both in seconds. One per minute for an hour, one per
#: hour for a day, one per day for a month.
THINNED = ((60.0, 3600.0), (3600.0, 86400.0), (86400.0, 31 * 86400.0))


class Status(msgspec.Struct, frozen=True, array_like=True):
    """How far a ranker has come at an event: what followers tell of it."""

    number: int
    tally: Tally
    open: int
    updates: int
    guard: Guard | None = None
    labels: dict[int, str] = {}

    @classmethod
    def of(cls, machine: Machine) -> Status:
        """Return how far a machine has come."""
        tally = Tally(*msgspec.structs.astuple(machine.tally))
        return cls(machine.number, tally, len(machine.open), machine.state.updates, machine.guard, machine.labels)


class _StoredVersion(msgspec.Struct, array_like=True):
    version: int
    number: int
    time: float
    frozen: bool
    tally: Tally
    open: int
    state: bytes
    pin: tuple[int, bytes] | None = None
    spec: RankerSpec | None = None
    guard: Guard | None = None
    labels: dict[int, str] = {}


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a ranker: its definition and state, from which impressions are made, and how far the ranker had come."""

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
        """The share of lists, beside guard lists, that it decides."""
        return 1.0 if self.status.guard is None else self.status.guard.learned_share

    @classmethod
    def first(cls, definition: Definition) -> Version:
        """Return the version of a new ranker."""
        guard = definition.spec.guard
        status = Status(definition.number, Tally(), 0, 0, None if guard is None else Guard.begin(guard))
        return cls(1, definition.created, definition.spec.mode == "frozen", status, definition, definition.start)

    @classmethod
    def of(cls, machine: Machine, time: float) -> Version:
        """Return the version that a machine has just published."""
        head = (machine.version, time, machine.frozen, Status.of(machine))
        return cls(*head, machine.definition, machine.served, machine.pin)


class Versions:
    """The versions of one ranker in a store.

    Parameters
    ----------
    storage
        The store.
    definition
        Of the ranker when it was created.
    """

    def __init__(self, storage: Storage, definition: Definition) -> None:
        self._snapshots, self._definition, self._name = storage.snapshots, definition, definition.spec.name

    def save(self, version: Version) -> None:
        """Keep a version; the same again changes nothing."""
        status = version.status
        pin = None if version.pin is None else (version.pin[0], pack_state(version.pin[1]))
        spec = None if version.definition is self._definition else version.definition.spec
        head = (version.version, version.number, version.time, version.frozen, status.tally, status.open)
        body = pack(_StoredVersion(*head, pack_state(version.state), pin, spec, status.guard, status.labels))
        self._snapshots.save(self._name, VERSION, version.version, version.time, body)

    def load(self, version: int | None = None) -> Version | None:
        """Return a version, or the newest; None where it is not there."""
        found = self._snapshots.load(self._name, VERSION, version)
        if found is None:
            return None
        stored, recipe = unpack(found.body, _StoredVersion), self._definition.algorithm
        definition = self._definition if stored.spec is None else self._definition.with_spec(stored.spec)
        state = unpack_state(stored.state, recipe)
        status = Status(stored.number, stored.tally, stored.open, state.updates, stored.guard, stored.labels)
        pin = None if stored.pin is None else (stored.pin[0], unpack_state(stored.pin[1], recipe))
        return Version(stored.version, stored.time, stored.frozen, status, definition, state, pin)

    def state(self, version: int) -> State | None:
        """Return the state of a version."""
        found = self.load(version)
        return None if found is None else found.state

    def list(self) -> list[SnapshotInfo]:
        """Return what versions there are, oldest first; their number is the version."""
        return self._snapshots.list(self._name, VERSION)

    def lasting(self, keep: int, now: float, labels: Collection[int]) -> Sequence[SnapshotInfo]:
        """Return the versions that one can go back to: the newest, fewer and fewer of older ones, and those with a label."""
        found = self.list()
        kept = {info.number for info in found[-keep:]}.union(labels, thinned(found, now))
        return [info for info in found if info.number in kept]

    def event_of(self, version: int) -> int | None:
        """Return the number of the event that published a version, None where it is not there."""
        found = self._snapshots.load(self._name, VERSION, version)
        return None if found is None else unpack(found.body, _StoredVersion).number

    def prune(self, keep: int, now: float, labels: Collection[int], needed: Collection[int]) -> int:
        """Remove all but those that last, and the needed ones."""
        lasting = {info.number for info in self.lasting(keep, now, labels)}
        return self._snapshots.prune(self._name, VERSION, keep, lasting.union(needed))


def thinned(versions: Sequence[SnapshotInfo], now: float) -> set[int]:
    """Return those that are kept of versions, oldest first, by their age: the first of each minute, hour and day, for a while.

    The first version of a day is the first of its first hour and of its first minute. So it does not matter how often and by whom
    this is asked on the way.
    """
    kept: set[int] = set()
    for seconds, most in THINNED:
        first: dict[float, SnapshotInfo] = {}
        for info in versions:
            first.setdefault(info.time // seconds, info)
        kept.update(info.number for info in first.values() if abs(now - info.time) <= most)
    return kept


def checkpoints(storage: Storage, name: str) -> Iterator[bytes]:
    """Yield the checkpoints of a ranker that are whole, newest first; raise where all are damaged and events were dropped."""
    damage: StoreCorrupt | None = None
    for info in reversed(storage.snapshots.list(name, CHECKPOINT)):
        try:
            found = storage.snapshots.load(name, CHECKPOINT, info.number)
        except StoreCorrupt as error:
            damage = error
        else:
            if found is not None:
                yield found.body
    if damage is not None and storage.log.dropped(name) > 0:
        raise damage


def events(log: EventLog, name: str, after: int, up_to: int, chunk: int = 1000) -> Iterator[Event]:
    """Yield the events of a ranker behind a number and up to another."""
    for found in _chunks(log, name, after, up_to, chunk):
        yield from found


def told(log: EventLog, name: str, machine: Machine, up_to: int) -> Iterator[Event]:
    """Yield the events of a ranker that a machine has not applied; it gets to know before which of them nobody could learn from."""
    for found in _chunks(log, name, machine.number, up_to, 1000):
        machine.failures = _failures(log, name, [event.number for event in found if event.kind in (CLOSED, LOGGED)])
        yield from found
    machine.failures = ()


def _chunks(log: EventLog, name: str, after: int, up_to: int, chunk: int) -> Iterator[list[Event]]:
    while after < up_to:
        found = log.read(after, chunk, name)
        yield [event for event in found if event.number <= up_to]
        if len(found) < chunk:
            return
        after = found[-1].number


def _failures(log: EventLog, name: str, numbers: list[int]) -> frozenset[int]:
    """Return those of the events from which nobody could learn.

    A leader that hung, and was replaced by one that could learn and has published since, says so in vain.
    """
    said = {
        event: unpack(event.body, Failed).version
        for event in log.find(name, FAILED, [str(each) for each in numbers]).values()
    }
    next_versions = log.find(name, PUBLISHED, [str(version + 1) for version in said.values()])
    published = {int(key): event.number for key, event in next_versions.items()}
    return frozenset(
        int(event.key) for event, version in said.items() if event.number < published.get(version + 1, event.number + 1)
    )
