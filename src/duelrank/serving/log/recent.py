"""The lists of the last moments, in memory, so that most feedback needs no look into the store."""

from __future__ import annotations

from duelrank.serving.log.bodies import Shown

__all__ = ["Entry", "Recent"]

MOST_BYTES = 64 << 20


class Entry:
    """A list: where it stands in the log, what was shown (None where that was pruned), and whether it was closed."""

    __slots__ = ("closed", "number", "shown")

    def __init__(self, number: int, shown: Shown | None, closed: bool = False) -> None:
        self.number, self.shown, self.closed = number, shown, closed

    def shown_ids(self) -> list[str]:
        """Return the ids of the documents that were shown, in order."""
        assert self.shown is not None
        ids = self.shown.ids
        return [ids[document] for document in self.shown.order]


class Recent:
    """So many lists at most, and so many bytes; the oldest goes first. One thread puts, any thread gets."""

    def __init__(self, most: int, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._entries: dict[tuple[str, str], Entry] = {}

    def get(self, ranker: str, key: str) -> Entry | None:
        """Return a list, None where it is not among the recent ones."""
        return self._entries.get((ranker, key))

    def put(self, ranker: str, key: str, entry: Entry) -> Entry:
        """Remember a list, or return the one that is remembered."""
        known = self._entries.get((ranker, key))
        if known is not None:
            return known
        self._entries[ranker, key] = entry
        self._bytes += _size(entry)
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            self._bytes -= _size(self._entries.pop(next(iter(self._entries))))
        return entry

    def __len__(self) -> int:
        return len(self._entries)


def _size(entry: Entry) -> int:
    return 200 if entry.shown is None else 200 + len(entry.shown.features) + 80 * len(entry.shown.ids)
