"""Replays a log from its beginning, or from the oldest checkpoint, and compares the result with everything that was saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from duelrank.core.errors import StorageFailure, StoreCorrupt, UnknownName
from duelrank.core.types import State
from duelrank.service import log
from duelrank.service.definition import Definition
from duelrank.service.experiment_machine import ExperimentMachine
from duelrank.service.experiments import ExperimentDefinition
from duelrank.service.history import block_kind
from duelrank.service.machine import EventMachine, Machine, history_since
from duelrank.service.rankers import MemoryStore, VersionStore, new_events, restore_from
from duelrank.storage import Event, Storage

#: Counts of a machine that a result repeats.
_COUNTS = ("impressions", "learned", "no_feedback", "skipped", "failed", "backfilled")
#: A running service may drop what is being replayed; then the replay is started again, this number of times.
ATTEMPTS = 5


@dataclass(frozen=True)
class Replayed:
    """The result of a replay, the number of comparisons, and the first difference, if any.

    Of an experiment, ``learned`` is the number of lists that count; it has neither versions nor updates.

    ``largest`` is the largest difference of a weight, in relation to the largest weight, if there was a tolerance.
    """

    ranker: str
    after: int
    events: int
    impressions: int
    learned: int
    no_feedback: int
    skipped: int
    failed: int
    open: int
    backfilled: int
    model_version: int
    updates: int
    digest: str
    versions_compared: int
    snapshots_compared: int
    largest: float
    difference: str | None


def ranker_names(storage: Storage) -> list[str]:
    """Return the names of all rankers and experiments in a store."""
    events = log.read_events(storage.log, log.RANKERS, 0, storage.log.last_number())
    return sorted(event.key for event in events if event.kind == log.CREATED)


def replay(storage: Storage, name: str, tolerance: float | None = None) -> Replayed:
    """Apply the events of a ranker or an experiment to a new machine; stops at the first difference from the store.

    Parameters
    ----------
    storage
        The store, which is only read.
    name
        Name of the ranker or experiment.
    tolerance
        None compares bit by bit, which holds on all x86-64 processors with the same versions of the libraries. Otherwise the
        largest accepted difference of a weight, in relation to the largest weight.
    """
    for _ in range(ATTEMPTS):
        attempt = _Replay(storage, name, tolerance)
        result = attempt.run()
        if (result.difference is None and not attempt.missed) or not attempt.overtaken:
            return result
    raise StorageFailure(
        f"the service drops features of {name!r} faster than they are replayed; replay a backup, or serve with --keep-features"
    )


class Rerun:
    """A new machine for the events of a ranker or an experiment, as far back as the store still has their features.

    Parameters
    ----------
    storage
        The store, which is only read.
    name
        Name of the ranker or experiment.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage, self._name = storage, name
        created = storage.log.find(log.RANKERS, log.CREATED, [name]).get(name)
        if created is None:
            raise UnknownName.among("ranker", name, ranker_names(storage))
        self._begin_machine(created, log.unpack(created.body, log.Created))
        self._end = storage.log.last_number()
        self._checkpoints = {info.number for info in storage.snapshots.list(name, log.CHECKPOINT)}
        self._dropped = storage.log.dropped(name)
        #: Number of the event after which it begins, 0 for the creation.
        self.after = self._begin()

    def _begin_machine(self, event: Event, created: log.Created) -> None:
        """Make the machine of a ranker or an experiment that an event has created."""
        #: The machine, and the same if it is that of a ranker.
        self.machine: EventMachine
        self.ranker: Machine | None = None
        if created.experiment is not None:
            self._lists = log.ListReader(self._storage, self._name, read=log.unpack_lists)
            self.machine = ExperimentMachine(ExperimentDefinition.read(event, created), self._lists.impression)
            return
        definition = Definition.read(event, created)
        #: The versions that the store has.
        self.versions = VersionStore(self._storage, definition)
        self._lists = lists = log.ListReader(self._storage, self._name)
        parts = (definition, self.impression, self.versions.state)
        self.machine = self.ranker = Machine(*parts, max_states=None, fetch_features=lists.features)

    def impression(self, id: str, number: int) -> tuple[log.StoredImpression, Any] | None:
        """Return an impression and its features; None if one of them is gone."""
        return self._lists.impression(id, number)

    @property
    def overtaken(self) -> bool:
        """Whether features that it needed were dropped since it began."""
        return self._storage.log.dropped(self._name) > max(self._dropped, self.after)

    def _begin(self) -> int:
        """Start from the creation if the log is complete, otherwise from the oldest checkpoint after what was dropped."""
        dropped = self._dropped
        if dropped <= self.machine.number:  # at the creation of the ranker, or before it
            return 0
        oldest = min((number for number in self._checkpoints if number >= dropped), default=None)
        found = None if oldest is None else self._storage.snapshots.load(self._name, log.CHECKPOINT, oldest)
        if found is None:
            raise StoreCorrupt(
                f"features of {self._name!r} were dropped up to event {dropped}, and there is no checkpoint to begin from"
            )
        restore_from(self.machine, self._storage, found)
        return found.number

    def events(self) -> Iterator[Event]:
        """Yield the events to apply to the machine."""
        return new_events(self._storage.log, self._name, self.machine, self._end, self._lists)


class _Replay(Rerun):
    """A rerun that is compared with everything that the store has saved."""

    def __init__(self, storage: Storage, name: str, tolerance: float | None) -> None:
        super().__init__(storage, name)
        self._tolerance = tolerance
        self._stored = {info.number for info in storage.snapshots.list(name, log.VERSION)}
        self._count = self._compared_versions = self._compared_snapshots = 0
        self._largest = 0.0
        newest = storage.snapshots.load(name, log.CHECKPOINT)
        self._history_since = None if newest is None or self.ranker is None else history_since(newest.body)
        self.missed = 0  # impressions from which learning has failed, which is not recorded in the log

    def run(self) -> Replayed:
        difference = None
        for event in self.events():
            difference = self._compare_before(event)
            if difference is None:
                closed = self.machine.apply(event)
                recorded = event.number in self.machine.failures
                self.missed += closed is not None and closed.outcome == "failed" and not recorded
                self._count += 1
                difference = self._compare_after(event)
            if difference is not None:
                break
        return self._result(difference)

    def _compare_before(self, event: Event) -> str | None:
        """Compare what an event contains about the state before it."""
        machine = self.ranker
        if machine is not None and event.kind == log.CONTROL:
            return self._compare_control(event, machine)
        if machine is None or event.kind != log.PUBLISHED:
            return None
        stored = log.unpack(event.body, log.Published)
        self._compared_versions += 1
        if stored.version != machine.version + 1:
            return f"event {event.number} publishes version {stored.version}, but {machine.version + 1} is the next"
        if self._tolerance is None and stored.previous != (found := log.digest(machine.served)):
            return (
                f"version {machine.version}: its digest in event {event.number} is {stored.previous.hex()}, "
                f"the replay has {found.hex()}"
            )
        return None

    def _compare_control(self, event: Event, machine: Machine) -> str | None:
        """Compare an action of a guard with the one that is due; if an operator was faster, nothing is due."""
        stored = log.unpack(event.body, log.Control)
        if stored.evidence is None or machine.guard is None or self._tolerance is not None:
            return None
        due, reason = int(event.key.rpartition("/")[2]), machine.guard.reason
        if machine.watch.due_since < due:
            return f"event {event.number} is an {stored.action}, which is not due in the replay"
        if reason is None or reason.due != stored.action or machine.watch.due_since != due:
            return None
        found = log.Evidence(reason.statistic, reason.wins, reason.losses)
        return None if found == stored.evidence else f"event {event.number}: {stored.evidence}, the replay has {found}"

    def _compare_after(self, event: Event) -> str | None:
        """Compare the snapshots that were saved right after an event."""
        machine, ranker = self.machine, self.ranker
        if ranker is not None and event.kind == log.PUBLISHED and ranker.version in self._stored:
            self._compared_snapshots += 1
            stored = self.versions.state(ranker.version)
            if stored is not None and not self._agree(stored, ranker.served):  # None: removed meanwhile
                return f"version {ranker.version}, published in event {event.number}, differs from the replay"
        if event.number in self._checkpoints and self._tolerance is None:
            checkpoint = self._storage.snapshots.load(self._name, log.CHECKPOINT, event.number)
            self._compared_snapshots += 1
            if checkpoint is not None and not machine.equals(checkpoint.body):
                return f"the checkpoint at event {event.number} differs from the replay"
            if event.number == max(self._checkpoints) and not self._same_queries():
                return f"the memory of queries at event {event.number} differs from the replay"
        return None if ranker is None else self._compare_history(event, ranker)

    def _same_queries(self) -> bool:
        """Whether the replay remembers the same of all queries as the store."""
        if (machine := self.ranker) is None or (remember := machine.definition.remember) is None:
            return True
        stored, _ = MemoryStore(self._storage, remember, self._name).load(machine.number)
        records = remember.table.records
        return bool(np.array_equal(records(stored), records(machine.remembered)))

    def _compare_history(self, event: Event, machine: Machine) -> str | None:
        """Compare the saved blocks of the history, if the replay has all that is in them."""
        done = machine.history.done
        while done:
            step, block = done.pop(0)
            saved = self._storage.snapshots.load(self._name, block_kind(step), block.number)
            if saved is None or self._tolerance is not None or machine.history.since != self._history_since:
                continue
            self._compared_snapshots += 1
            if log.content_of(saved.body) != log.content_of(log.pack(block)):
                return f"the history by the {step} up to event {event.number} differs from the replay"
        return None

    def _agree(self, stored: State, found: State) -> bool:
        """Whether two states are the same, or their weights are within the tolerance."""
        if self._tolerance is None:
            return log.pack_state(stored) == log.pack_state(found)
        if stored.weights.shape != found.weights.shape or stored.updates != found.updates:
            return False
        scale = max(float(np.abs(stored.weights).max()), np.finfo(np.float64).tiny)
        self._largest = max(self._largest, float(np.abs(stored.weights - found.weights).max()) / scale)
        return self._largest <= self._tolerance

    def _result(self, difference: str | None) -> Replayed:
        machine, ranker, tally = self.machine, self.ranker, self.machine.tally
        if difference is not None and self.missed:
            difference += (
                f"; the replay could not learn from {self.missed:,} lists that the service has learned from: other libraries "
                "can give another order, and some algorithms learn only from lists that they can make again"
            )
        return Replayed(
            ranker=self._name,
            after=self.after,
            events=self._count,
            **{name: getattr(tally, name) for name in _COUNTS},
            open=len(machine.open),
            model_version=0 if ranker is None else ranker.version,
            updates=0 if ranker is None else ranker.state.updates,
            digest=log.body_digest(machine.checkpoint()).hex() if ranker is None else log.digest(ranker.state).hex(),
            versions_compared=self._compared_versions,
            snapshots_compared=self._compared_snapshots,
            largest=self._largest,
            difference=difference,
        )
