"""Model versions in the store: each is an immutable snapshot, kept under its number."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from duelrank.errors import StoreCorrupt
from duelrank.serving.log.bodies import pack, pack_state, unpack, unpack_state
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.machine import Machine, Tally
from duelrank.storage import Event, SnapshotInfo, Storage
from duelrank.types import State

__all__ = ["Model", "Versions", "checkpoints", "events"]


class _Stored(msgspec.Struct, array_like=True):
    version: int
    number: int
    time: float
    frozen: bool
    tally: Tally
    open: int
    state: bytes
    pin: tuple[int, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """One version of a ranker: what lists are made from, and how things stood when it was made."""

    version: int
    number: int
    time: float
    frozen: bool
    tally: Tally
    open: int
    state: State
    pin: tuple[int, State] | None = None

    @classmethod
    def of(cls, machine: Machine, time: float) -> Model:
        """Return the version that a machine has just published."""
        tally = Tally(*msgspec.structs.astuple(machine.tally))
        head = (machine.version, machine.number, time, machine.frozen, tally, len(machine.open))
        return cls(*head, machine.served, machine.pin)


class Versions:
    """The versions of one ranker in a store; the snapshot's number there is the version."""

    def __init__(self, storage: Storage, definition: Definition) -> None:
        self._storage, self._recipe = storage, definition.algorithm
        self._key = f"{definition.spec.name}/model"

    def save(self, model: Model) -> None:
        """Keep a version; the same again changes nothing."""
        values = (model.version, model.number, model.time, model.frozen, model.tally, model.open)
        pin = None if model.pin is None else (model.pin[0], pack_state(model.pin[1]))
        body = pack(_Stored(*values, pack_state(model.state), pin))
        self._storage.save_snapshot(self._key, model.version, model.time, body)

    def load(self, version: int | None = None) -> Model | None:
        """Return a version, or the newest; None where it is not there."""
        found = self._storage.load_snapshot(self._key, version)
        if found is None or (version is not None and found.number != version):
            return None
        stored = unpack(found.body, _Stored)
        head = (stored.version, stored.number, stored.time, stored.frozen, stored.tally, stored.open)
        pin = None if stored.pin is None else (stored.pin[0], unpack_state(stored.pin[1], self._recipe))
        return Model(*head, unpack_state(stored.state, self._recipe), pin)

    def state(self, version: int) -> State | None:
        """Return the state of a version."""
        found = self.load(version)
        return None if found is None else found.state

    def list(self) -> list[SnapshotInfo]:
        """Return what versions there are, oldest first; their number is the version."""
        return self._storage.snapshots(self._key)

    def prune(self, keep: int, pinned: Collection[int]) -> int:
        """Remove all but the newest and the pinned ones."""
        return self._storage.prune_snapshots(self._key, keep, pinned)


def checkpoints(storage: Storage, name: str) -> Iterator[bytes]:
    """Yield the checkpoints of a ranker that are whole, newest first; raise where all are damaged and the log was pruned."""
    damage: StoreCorrupt | None = None
    for info in reversed(storage.snapshots(name)):
        try:
            found = storage.load_snapshot(name, info.number)
        except StoreCorrupt as error:
            damage = error
        else:
            if found is not None:
                yield found.body
    if damage is not None and storage.pruned(name) > 0:
        raise damage


def events(storage: Storage, name: str, after: int, up_to: int, chunk: int = 1000) -> Iterator[Event]:
    """Yield the events of a ranker behind a number and up to another."""
    while after < up_to:
        found = storage.read(after, chunk, name)
        for event in found:
            if event.number > up_to:
                return
            yield event
        if len(found) < chunk:
            return
        after = found[-1].number
