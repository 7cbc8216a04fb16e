"""Lists and events that were there before: from memory where that is sure to be right, else from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from duelrank.errors import InvalidValue
from duelrank.serving.log.bodies import Shown, unpack
from duelrank.serving.log.recent import Entry, Recent
from duelrank.storage import SQLiteStorage, Storage
from duelrank.storage.values import checked_text

__all__ = ["Lookup"]

T = TypeVar("T")


class Lookup:
    """Finds what clients refer to.

    Parameters
    ----------
    storage
        The store.
    recent
        The lists of the last moments.
    max_id
        How long an id may be.
    leads
        Whether this process is the one that learns.
    """

    def __init__(self, storage: Storage, recent: Recent, max_id: int, leads: Callable[[], bool]) -> None:
        self._storage, self._recent, self._max_id, self._leads = storage, recent, max_id, leads
        self.local = isinstance(storage, SQLiteStorage)  # reading is quick, and nobody else closes lists while we lead

    async def lists(self, name: str, keys: Iterable[str]) -> dict[str, Entry | None]:
        """Return lists by their ids, None for those that nobody knows."""
        entries = {key: self._recent.get(name, key) for key in keys}
        sure = self.local and self._leads()
        asked = [key for key, entry in entries.items() if entry is None or not (sure or entry.closed)]
        if asked:
            found = await self.read(lambda: {key: self._find(name, key, entries[key]) for key in asked})
            for key, entry in found.items():
                entries[key] = None if entry is None else self._recent.put(name, key, entry)
        return entries

    async def known_events(self, name: str, keys: list[str]) -> int:
        """Return how many of these feedback events are in the store."""
        possible = [key for key in keys if self._possible(key)]
        return await self.read(lambda: sum(self._storage.known(name, "feedback", key) is not None for key in possible))

    async def read(self, work: Callable[[], T]) -> T:
        """Read from the store: at once where that takes microseconds, else in a thread."""
        return work() if self.local else await asyncio.to_thread(work)

    def _find(self, name: str, key: str, known: Entry | None) -> Entry | None:
        if known is None:
            known = self._stored(name, key)
        if known is not None and not known.closed:
            known.closed = self._storage.known(name, "closed", str(known.number)) is not None
        return known

    def _stored(self, name: str, key: str) -> Entry | None:
        if not self._possible(key):
            return None
        event = self._storage.find(name, "ranked", key)
        if event is not None:
            return Entry(event.number, unpack(event.body, Shown))
        number = self._storage.known(name, "ranked", key)
        return None if number is None else Entry(number, None, closed=True)

    def _possible(self, key: str) -> bool:
        """Whether a store could have this key; it refuses to be asked for others."""
        try:
            checked_text("key", key)
        except InvalidValue:
            return False
        return len(key) <= self._max_id
