"""How the store stays bounded: what nobody needs any more is dropped once checkpoints cover it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from duelrank.core.errors import StoreCorrupt
from duelrank.serving.log.bodies import CREATED, DELETED, PURGED, RANKERS, Deleted, pack, unpack
from duelrank.serving.ranker.definition import Definition
from duelrank.serving.ranker.machine import Machine, needed
from duelrank.serving.ranker.rankers import Ranker
from duelrank.serving.ranker.versions import CHECKPOINT, Versions, events
from duelrank.serving.settings import Settings
from duelrank.storage import NewEvent, SnapshotInfo, Storage

__all__ = ["Retention"]

# Checkpoints that are always kept, should the newest be damaged; and how many more there are over the time of `keep_features`.
NEWEST, BETWEEN = 3, 8

# So many attachments, and so many events, are removed before the learner goes on learning.
AT_ONCE = 20_000

Needed: TypeAlias = tuple[frozenset[int], frozenset[int]]  # numbers of impressions, versions
NOTHING: Needed = (frozenset(), frozenset())


class Retention:
    """Removes what is old, such that a replay can begin at the oldest checkpoint that is kept.

    Features go as soon as their impression is closed and the oldest kept checkpoint covers that. Events, which are small
    without features, go after the retention time; until then a late duplicate is recognised.
    """

    def __init__(self, storage: Storage, settings: Settings) -> None:
        self._storage, self._settings = storage, settings
        self._needed: dict[tuple[str, int], Needed] = {}
        self._purged: set[str] = set()

    def note(self, name: str, machine: Machine) -> None:
        """Remember what a checkpoint that was just saved needs."""
        self._needed[name, machine.number] = machine.needs()

    def tidy(self, name: str, created: Definition, machine: Machine, now: float) -> bool:
        """Remove features, events, checkpoints and versions of a ranker that are older than they need to be.

        Return whether more is left to remove: so much at once only, because nothing is learned meanwhile.
        """
        log, settings = self._storage.log, self._settings
        cutoff = log.number_before(name, now - settings.keep_features)
        kept = self._kept_checkpoints(name, cutoff)
        if not kept:
            return False
        self._storage.snapshots.prune(name, CHECKPOINT, NEWEST, [info.number for info in kept])
        wanted = {(name, info.number): self._needed_at(name, info.number) for info in kept}
        self._needed = {key: value for key, value in self._needed.items() if key[0] != name} | wanted
        versions = set(machine.references).union(*(each[1] for each in wanted.values()))
        Versions(self._storage, created).prune(settings.keep_versions, now, machine.labels, versions)
        # The impressions that were open at a checkpoint are needed to learn from them after it.
        open_then = {impression.number for impression in machine.open.values()}.union(
            *(each[0] for each in wanted.values())
        )
        oldest = kept[0].number
        if oldest > cutoff:  # a replay from the beginning is still wanted
            return False
        dropped = log.drop_attachments(name, oldest, keep=open_then, limit=AT_ONCE)
        old = min(oldest, log.number_before(name, now - settings.retention))
        return AT_ONCE in (dropped, log.delete(name, old, keep=open_then, limit=AT_ONCE))

    def _kept_checkpoints(self, name: str, cutoff: int) -> list[SnapshotInfo]:
        """Return the checkpoints to keep: the newest, and a few from the newest that is older than `keep_features`."""
        found = self._storage.snapshots.list(name, CHECKPOINT)
        old = [info for info in found if info.number <= cutoff]
        rest = found[max(0, min(len(old) - 1, len(found) - NEWEST)) :]
        kept: list[SnapshotInfo] = []
        for index, info in enumerate(rest):
            apart = not kept or abs(info.time - kept[-1].time) >= self._settings.keep_features / BETWEEN
            if apart or index >= len(rest) - NEWEST:
                kept.append(info)
        return kept

    def _needed_at(self, name: str, number: int) -> Needed:
        known = self._needed.get((name, number))
        if known is None:
            try:
                found = self._storage.snapshots.load(name, CHECKPOINT, number)
            except StoreCorrupt:
                return NOTHING  # nobody can begin there
            known = NOTHING if found is None else needed(found.body)
        return known

    def purge(self, deleted: Deleted, number: int) -> None:
        """Remove all that a deleted ranker has left, once; ``number`` is that of the event that deleted it.

        That it was done is noted at once: done again later, by a leader that hung or by the next one, it would remove what a new
        ranker of the same name has saved meanwhile.
        """
        log, key = self._storage.log, f"{deleted.name}/{number}"
        if log.find(RANKERS, PURGED, [key]):
            return
        log.delete(deleted.name, number)
        self._storage.snapshots.delete(deleted.name)
        remove_creation(self._storage, deleted)  # last: it makes the name free
        log.append([NewEvent(RANKERS, PURGED, key, 0.0, pack(number))])
        self._needed = {key: value for key, value in self._needed.items() if key[0] != deleted.name}
        self._purged.add(deleted.name)

    def purge_again(self, rankers: Mapping[str, Ranker], cursor: int) -> None:
        """Remove what other processes have appended for deleted rankers before they noticed; all up to ``cursor`` is known."""
        for name in self._purged:
            ranker = rankers.get(name)
            self._storage.log.delete(name, cursor if ranker is None else min(cursor, ranker.created.number))
        self._purged.clear()

    def purge_deleted(self) -> None:
        """Do what an earlier leader has left undone."""
        log = self._storage.log
        for event in events(log, RANKERS, 0, log.last_number()):
            if event.kind == DELETED:
                self.purge(unpack(event.body, Deleted), event.number)


def remove_creation(storage: Storage, deleted: Deleted) -> None:
    """Remove the event that created a deleted ranker, so that its name is free again."""
    log = storage.log
    others = {
        event.number
        for event in events(log, RANKERS, 0, deleted.number)
        if event.kind != CREATED or event.number != deleted.number
    }
    log.delete(RANKERS, deleted.number, keep=others)
