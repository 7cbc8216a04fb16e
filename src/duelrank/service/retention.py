"""Bounds the store: removes what checkpoints make unnecessary, and measures how fast the disk fills."""

from __future__ import annotations

import logging
from collections import deque
from typing import TypeAlias

from duelrank.core.errors import StoreCorrupt
from duelrank.service.log import CHECKPOINT, CREATED, DELETED, PURGED, RANKERS, Deleted, pack, read_events, unpack
from duelrank.service.machine import EventMachine, Machine
from duelrank.service.rankers import Rankers, VersionStore
from duelrank.service.settings import Clock, Settings
from duelrank.storage import NewEvent, SnapshotInfo, Storage

logger = logging.getLogger("duelrank.service")

#: Checkpoints that are always kept, in case the newest is damaged; and the number of further ones over the time of `keep_features`.
NEWEST_CHECKPOINTS, CHECKPOINTS_BETWEEN = 3, 8
#: The number of attachments, and of events, that are removed before learning continues.
REMOVED_AT_ONCE = 20_000

Needed: TypeAlias = tuple[frozenset[int], frozenset[int]]  # numbers of impressions, versions
NOTHING: Needed = (frozenset(), frozenset())


class Retention:
    """Removes old data, such that a replay can begin at the oldest checkpoint that is kept.

    Features are removed as soon as their impression is closed and the oldest kept checkpoint covers that. Events, which are small
    without features, are removed after the retention time; until then a late duplicate is recognized.
    """

    def __init__(self, storage: Storage, settings: Settings) -> None:
        self._storage, self._settings = storage, settings
        self._needed: dict[tuple[str, int], Needed] = {}
        self._purged: set[str] = set()

    def note(self, name: str, machine: EventMachine) -> None:
        """Remember what a checkpoint that was just saved needs."""
        self._needed[name, machine.number] = machine.needs()

    def tidy(self, name: str, machine: EventMachine, now: float) -> bool:
        """Remove old attachments, events, checkpoints and versions; return whether more is left to remove.

        One call removes a limited amount, because nothing is learned in the meantime.
        """
        log, settings = self._storage.log, self._settings
        cutoff = log.number_before(name, now - settings.keep_features)
        kept = self._kept_checkpoints(name, cutoff)
        if not kept:
            return False
        self._storage.snapshots.prune(name, CHECKPOINT, NEWEST_CHECKPOINTS, [info.number for info in kept])
        wanted = {(name, info.number): self._needed_at(machine, info.number) for info in kept}
        self._needed = {key: value for key, value in self._needed.items() if key[0] != name} | wanted
        if isinstance(machine, Machine):
            versions = set(machine.references).union(*(each[1] for each in wanted.values()))
            stored = VersionStore(self._storage, machine.definition)
            stored.prune(settings.keep_versions, now, machine.labels, versions)
        # The impressions that were open at a checkpoint are needed to learn from them after it.
        open_then = {impression.number for impression in machine.open.values()}.union(
            *(each[0] for each in wanted.values())
        )
        oldest = kept[0].number
        if oldest > cutoff:  # a replay from the beginning must stay possible
            return False
        dropped = log.drop_attachments(name, oldest, keep=open_then, limit=REMOVED_AT_ONCE)
        old = min(oldest, log.number_before(name, now - settings.retention))
        return REMOVED_AT_ONCE in (dropped, log.delete(name, old, keep=open_then, limit=REMOVED_AT_ONCE))

    def _kept_checkpoints(self, name: str, cutoff: int) -> list[SnapshotInfo]:
        """Return the checkpoints to keep: the newest, and a few since the newest that is older than `keep_features`."""
        found = self._storage.snapshots.list(name, CHECKPOINT)
        old = [info for info in found if info.number <= cutoff]
        rest = found[max(0, min(len(old) - 1, len(found) - NEWEST_CHECKPOINTS)) :]
        kept: list[SnapshotInfo] = []
        for index, info in enumerate(rest):
            apart = not kept or abs(info.time - kept[-1].time) >= self._settings.keep_features / CHECKPOINTS_BETWEEN
            if apart or index >= len(rest) - NEWEST_CHECKPOINTS:
                kept.append(info)
        return kept

    def _needed_at(self, machine: EventMachine, number: int) -> Needed:
        known = self._needed.get((machine.name, number))
        if known is None:
            try:
                found = self._storage.snapshots.load(machine.name, CHECKPOINT, number)
            except StoreCorrupt:
                return NOTHING  # nothing can begin there
            known = NOTHING if found is None else machine.needed(found.body)
        return known

    def purge(self, deleted: Deleted, number: int) -> None:
        """Remove all data of a deleted ranker, once; ``number`` is that of the event that deleted it.

        The log records that it was done. If a leader that hung, or its successor, did it again later, it would remove data of a new
        ranker of the same name.
        """
        log, key = self._storage.log, f"{deleted.name}/{number}"
        if log.find(RANKERS, PURGED, [key]):
            return
        log.delete(deleted.name, number)
        self._storage.snapshots.delete(deleted.name)
        remove_creation(self._storage, deleted)  # last: it frees the name
        log.append([NewEvent(RANKERS, PURGED, key, 0.0, pack(number))])
        self._needed = {key: value for key, value in self._needed.items() if key[0] != deleted.name}
        self._purged.add(deleted.name)

    def purge_again(self, rankers: Rankers, applied: int) -> None:
        """Remove what other processes have appended for deleted rankers before they noticed, up to the last applied event."""
        for name in self._purged:
            ranker = rankers.get(name)
            self._storage.log.delete(name, applied if ranker is None else min(applied, ranker.created.number))
        self._purged.clear()

    def purge_deleted(self) -> None:
        """Complete the purges that an earlier leader has not done."""
        log = self._storage.log
        for event in read_events(log, RANKERS, 0, log.last_number()):
            if event.kind == DELETED:
                self.purge(unpack(event.body, Deleted), event.number)


def remove_creation(storage: Storage, deleted: Deleted) -> None:
    """Remove the event that created a deleted ranker, which frees its name."""
    log = storage.log
    others = {
        event.number
        for event in read_events(log, RANKERS, 0, deleted.number)
        if event.kind != CREATED or event.number != deleted.number
    }
    log.delete(RANKERS, deleted.number, keep=others)


class Capacity:
    """Measures the size of a store at intervals, and warns before its disk is full.

    Parameters
    ----------
    storage
        The store.
    clock
        Clock of the service.
    rankers
        Rankers of the service, whose observer receives the measurements.
    """

    #: Seconds over which growth is measured, and below which it is not: features of the first minutes are not dropped yet.
    window, shortest = 3600.0, 600.0
    #: Days left, and share of free space, below which there is a warning; seconds between two warnings.
    few_days, little_space, quiet = 2.0, 0.05, 3600.0

    def __init__(self, storage: Storage, clock: Clock, rankers: Rankers) -> None:
        self._storage, self._clock, self._rankers = storage, clock, rankers
        self._sizes: deque[tuple[float, int]] = deque()
        self._warned = -self.quiet

    def measure(self) -> None:
        """Measure, pass the result to the observer, and log a warning if necessary."""
        now, usage = self._clock.monotonic(), self._storage.usage()
        self._sizes.append((now, usage.bytes))
        while now - self._sizes[0][0] > self.window:
            self._sizes.popleft()
        days = None if usage.free is None else self._days_left(usage.free)
        self._rankers.observer.store(usage.bytes, usage.free, days)
        if usage.free is None or now - self._warned < self.quiet:
            return
        if usage.free < self.little_space * (usage.bytes + usage.free) or (days is not None and days < self.few_days):
            lasts = "" if days is None else f", enough for {days:.1f} days at the current rate"
            logger.warning("the store's disk has %.1f GB left%s", usage.free / 1e9, lasts)
            self._warned = now

    def _days_left(self, free: int) -> float | None:
        """Return the days until the disk is full at the rate of the last hour; None if the store does not grow."""
        (then, before), (now, size) = self._sizes[0], self._sizes[-1]
        if now - then < self.shortest or size <= before:
            return None
        return free / ((size - before) / (now - then)) / 86400.0
