"""How the store stays bounded: old events go once a checkpoint covers them, old versions once no open list needs them."""

from __future__ import annotations

from typing import TypeAlias

from duelrank.errors import StoreCorrupt
from duelrank.serving.ranker.machine import Machine, needed
from duelrank.serving.ranker.versions import Versions
from duelrank.serving.settings import Settings
from duelrank.storage import SnapshotInfo, Storage

__all__ = ["Tidying"]

# Checkpoints that are always kept, should the newest be damaged; and how many more there are over the retention time.
NEWEST, BETWEEN = 3, 8

Needed: TypeAlias = tuple[frozenset[int], frozenset[int]]  # numbers of events, versions
NOTHING: Needed = (frozenset(), frozenset())


class Tidying:
    """Prunes rankers, such that a replay can begin at the oldest checkpoint that is kept."""

    def __init__(self, storage: Storage, settings: Settings) -> None:
        self._storage, self._settings = storage, settings
        self._needed: dict[tuple[str, int], Needed] = {}

    def tidy(self, name: str, machine: Machine, now: float) -> None:
        """Remove events and versions of a ranker that are older than the retention time."""
        cutoff = self._storage.number_before(name, now - self._settings.retention)
        kept = self._thin(name, cutoff)
        if not kept:
            return
        self._storage.prune_snapshots(name, NEWEST, [info.number for info in kept])
        wanted = {(name, info.number): self._needed_at(name, info.number) for info in kept}
        self._needed = {key: value for key, value in self._needed.items() if key[0] != name} | wanted
        versions = set(machine.pinned).union(*(each[1] for each in wanted.values()))
        Versions(self._storage, machine.definition).prune(self._settings.keep_versions, versions)
        oldest = kept[0].number
        if oldest <= cutoff:
            # The lists that were open at a checkpoint are needed to learn from them after it.
            keep = {entry.number for entry in machine.open.values()}.union(*(each[0] for each in wanted.values()))
            age = now - 2.0 * self._settings.retention
            self._storage.prune(name, oldest, keep=keep, forget=min(oldest, self._storage.number_before(name, age)))

    def _thin(self, name: str, cutoff: int) -> list[SnapshotInfo]:
        """Return the checkpoints to keep: from the newest that is older than the retention time, a few over that time."""
        found = self._storage.snapshots(name)
        old = [info for info in found if info.number <= cutoff]
        rest = found[max(0, len(old) - 1) :]
        kept: list[SnapshotInfo] = []
        for index, info in enumerate(rest):
            apart = not kept or abs(info.time - kept[-1].time) >= self._settings.retention / BETWEEN
            if apart or index >= len(rest) - NEWEST:
                kept.append(info)
        return kept

    def _needed_at(self, name: str, number: int) -> Needed:
        known = self._needed.get((name, number))
        if known is None:
            try:
                found = self._storage.load_snapshot(name, number)
            except StoreCorrupt:
                return NOTHING  # nobody can begin there
            known = NOTHING if found is None else needed(found.body)
        return known
