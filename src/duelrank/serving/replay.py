"""Replay a log from its beginning, or from the oldest checkpoint, and compare with all that was written down on the way."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.errors import StoreCorrupt, UnknownName
from duelrank.serving.log.bodies import RANKERS, Created, Published, Shown, digest, pack_state, unpack
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.machine import Machine
from duelrank.serving.ranker.versions import Model, Versions, events
from duelrank.storage import Event, Storage

__all__ = ["Replayed", "ranker_names", "replay"]


@dataclass(frozen=True)
class Replayed:
    """What came out of a replay, how much was compared on the way, and the first difference, if any."""

    ranker: str
    after: int
    events: int
    impressions: int
    learned: int
    skipped: int
    failed: int
    open: int
    model_version: int
    updates: int
    digest: str
    versions_compared: int
    snapshots_compared: int
    difference: str | None


def ranker_names(storage: Storage) -> list[str]:
    """Return the names of all rankers in a store."""
    return sorted(event.key for event in events(storage, RANKERS, 0, storage.last_number()))


def replay(storage: Storage, name: str) -> Replayed:
    """Apply the events of a ranker to a fresh machine; stops at the first difference from what the store says."""
    return _Replay(storage, name).run()


class _Replay:
    def __init__(self, storage: Storage, name: str) -> None:
        self._storage, self._name = storage, name
        created = storage.find(RANKERS, "created", name)
        if created is None:
            raise UnknownName.among("ranker", name, ranker_names(storage))
        definition = Definition(unpack(created.body, Created).spec, created.time)
        self._versions = Versions(storage, definition)
        self._machine = Machine(definition, self._fetch, self._versions.state, most_states=None)
        self._end = storage.last_number()
        self._checkpoints = {info.number for info in storage.snapshots(name)}
        self._stored = {info.number for info in self._versions.list()}
        self._count = self._compared_versions = self._compared_snapshots = 0
        self._after = self._begin()

    def _begin(self) -> int:
        """Start from nothing where the log is whole, else from the oldest checkpoint behind what was pruned."""
        pruned = self._storage.pruned(self._name)
        if pruned == 0:
            return 0
        oldest = min((number for number in self._checkpoints if number >= pruned), default=None)
        found = None if oldest is None else self._storage.load_snapshot(self._name, oldest)
        if found is None:
            raise StoreCorrupt(
                f"{self._name!r} was pruned up to event {pruned}, and no checkpoint is there to begin from"
            )
        self._machine.restore(found.body)
        return found.number

    def _fetch(self, key: str) -> Shown | None:
        event = self._storage.find(self._name, "ranked", key)
        return None if event is None else unpack(event.body, Shown)

    def run(self) -> Replayed:
        difference = None
        for event in events(self._storage, self._name, self._after, self._end):
            difference = self._before(event)
            if difference is None:
                self._machine.apply(event)
                self._count += 1
                difference = self._behind(event)
            if difference is not None:
                break
        return self._result(difference)

    def _before(self, event: Event) -> str | None:
        """Compare what an event says about the past."""
        if event.kind != "published":
            return None
        said, machine = unpack(event.body, Published), self._machine
        self._compared_versions += 1
        if said.version != machine.version + 1:
            return f"event {event.number} publishes version {said.version}, and {machine.version + 1} is the next"
        if said.previous != (found := digest(machine.served)):
            return (
                f"version {machine.version}: its digest in event {event.number} is {said.previous.hex()}, "
                f"the replay has {found.hex()}"
            )
        return None

    def _behind(self, event: Event) -> str | None:
        """Compare the snapshots that were taken right behind an event."""
        machine = self._machine
        if event.kind == "published" and machine.version in self._stored:
            stored, found = self._versions.load(machine.version), Model.of(machine, event.time)
            self._compared_snapshots += 1
            if stored is None or pack_state(stored.state) != pack_state(found.state):
                return (
                    f"version {machine.version}, published in event {event.number}, is another one than in the replay"
                )
        if event.number in self._checkpoints:
            checkpoint = self._storage.load_snapshot(self._name, event.number)
            self._compared_snapshots += 1
            if checkpoint is not None and checkpoint.number == event.number and checkpoint.body != machine.checkpoint():
                return f"the checkpoint at event {event.number} is another one than in the replay"
        return None

    def _result(self, difference: str | None) -> Replayed:
        machine, tally = self._machine, self._machine.tally
        return Replayed(
            ranker=self._name,
            after=self._after,
            events=self._count,
            impressions=tally.impressions,
            learned=tally.learned,
            skipped=tally.skipped,
            failed=tally.failed,
            open=len(machine.open),
            model_version=machine.version,
            updates=machine.state.updates,
            digest=digest(machine.state).hex(),
            versions_compared=self._compared_versions,
            snapshots_compared=self._compared_snapshots,
            difference=difference,
        )
