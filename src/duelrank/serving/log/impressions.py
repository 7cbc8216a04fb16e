"""Impressions by their ids: from memory where that is sure to be right, else from the event log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from duelrank.core.errors import InvalidValue
from duelrank.core.types import Features
from duelrank.serving.log.attachments import unpack_features
from duelrank.serving.log.bodies import CLOSED, FEEDBACK, IMPRESSION, StoredImpression, unpack
from duelrank.storage import Event, Storage
from duelrank.storage.values import checked_text

__all__ = [
    "Impressions",
    "KnownImpression",
    "RecentImpressions",
    "read_attached",
    "read_impression",
]

T = TypeVar("T")

MOST_BYTES = 64 << 20
READERS = 4


class KnownImpression:
    """An impression: its number in the log, its body (None where that is gone), its attachment, and whether it was closed."""

    __slots__ = ("attachment", "body", "closed", "number")

    def __init__(
        self, number: int, body: StoredImpression | None, attachment: bytes | None = None, closed: bool = False
    ) -> None:
        self.number, self.body, self.attachment, self.closed = number, body, attachment, closed


class RecentImpressions:
    """So many impressions at most, and so many bytes; the oldest goes first. One thread puts, any thread gets."""

    def __init__(self, most: int, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._known: dict[tuple[str, str], KnownImpression] = {}

    def get(self, ranker: str, id: str) -> KnownImpression | None:
        """Return an impression, None where it is not among the recent ones."""
        return self._known.get((ranker, id))

    def put(self, ranker: str, id: str, impression: KnownImpression) -> KnownImpression:
        """Remember an impression, or return the one that is remembered."""
        known = self._known.get((ranker, id))
        if known is not None:
            return known
        self._known[ranker, id] = impression
        self._bytes += _size(impression)
        while len(self._known) > self._most or self._bytes > self._most_bytes:
            self._bytes -= _size(self._known.pop(next(iter(self._known))))
        return impression

    def forget(self, ranker: str) -> None:
        """Forget the impressions of a ranker that was deleted."""
        for key in [key for key in self._known if key[0] == ranker]:
            self._bytes -= _size(self._known.pop(key))

    def __len__(self) -> int:
        return len(self._known)


class Impressions:
    """Finds what clients refer to, in the thread of an event loop; waits for the store in threads of its own.

    Parameters
    ----------
    storage
        The store.
    recent
        The newest impressions of this process.
    max_id
        How long an id may be.
    leads
        Whether this process is the one that learns.
    """

    def __init__(self, storage: Storage, recent: RecentImpressions, max_id: int, leads: Callable[[], bool]) -> None:
        self._storage, self._recent, self._max_id, self._leads = storage, recent, max_id, leads
        self._readers = ThreadPoolExecutor(READERS, "duelrank-reader")

    async def find(self, ranker: str, ids: Collection[str]) -> dict[str, KnownImpression | None]:
        """Return impressions by their ids, None for those that nobody knows."""
        found = {id: self._recent.get(ranker, id) for id in ids}
        # Where processes share a store, another one may have closed an impression a moment ago.
        sure = not self._storage.shared and self._leads()
        asked = [id for id, known in found.items() if known is None or not (sure or known.closed)]
        if asked:
            stored = await self.read(lambda: self._stored(ranker, {id: found[id] for id in asked}))
            for id, known in stored.items():
                found[id] = None if known is None else self._recent.put(ranker, id, known)
        return found

    async def events(self, ranker: str, keys: Collection[str]) -> dict[str, Event]:
        """Return the feedback events that the log has under these keys."""
        possible = [key for key in keys if self._possible(key)]
        return await self.read(lambda: self._storage.log.find(ranker, FEEDBACK, possible))

    async def read(self, work: Callable[[], T]) -> T:
        """Read from the store, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def close(self) -> None:
        """End the threads."""
        self._readers.shutdown(wait=False)

    def _stored(self, ranker: str, known: dict[str, KnownImpression | None]) -> dict[str, KnownImpression | None]:
        missing = [id for id, each in known.items() if each is None and self._possible(id)]
        for id, event in self._storage.log.find(ranker, IMPRESSION, missing).items():
            body = unpack(event.body, StoredImpression) if event.body else None
            known[id] = KnownImpression(event.number, body, closed=body is None)
        unclosed = {str(each.number): each for each in known.values() if each is not None and not each.closed}
        for number in self._storage.log.find(ranker, CLOSED, list(unclosed)):
            unclosed[number].closed = True
        return known

    def _possible(self, key: str) -> bool:
        """Whether a store could have this key; it refuses to be asked for others."""
        try:
            checked_text("key", key)
        except InvalidValue:
            return False
        return len(key) <= self._max_id


def read_attached(storage: Storage, ranker: str, number: int) -> Features | None:
    """Return the features that belong to an event, None where they were dropped."""
    attachment = storage.log.attachment(ranker, number)
    return None if attachment is None else unpack_features(attachment)


def read_impression(storage: Storage, ranker: str, id: str) -> tuple[Event, StoredImpression, Features] | None:
    """Return an impression from the store, with its features; None where one of them is not there (any more)."""
    event = storage.log.find(ranker, IMPRESSION, [id]).get(id)
    if event is None or not event.body:
        return None
    body = unpack(event.body, StoredImpression)
    features = read_attached(storage, ranker, event.number)
    return None if features is None else (event, body, features)


def _size(impression: KnownImpression) -> int:
    body = impression.body
    size = 200 + len(impression.attachment or b"")
    return size if body is None else size + 80 * len(body.ids)
