"""The newest events of the log, in memory: who learns where they were appended need not read them from the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from duelrank.storage import Event, NewEvent, Receipt, Storage

__all__ = ["Feed"]

MOST = 4000
MOST_BYTES = 32 << 20


class Feed:
    """Events that this process has appended, until the learner has taken them; the store has all that is missing here."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MOST)
        self._bytes = 0
        self.wanted = False

    def tell(self, events: Sequence[NewEvent], receipts: Sequence[Receipt]) -> None:
        """Note what was appended; called in the order of the numbers."""
        if not self.wanted:
            return
        for event, receipt in zip(events, receipts, strict=True):
            self._bytes += len(event.body)
            if receipt.new:
                parts = (event.ranker, event.kind, event.key, event.time, event.body)
                self._events.append(Event(receipt.number, *parts))
        if self._bytes > MOST_BYTES:
            self._events.clear()
            self._bytes = 0

    def take(self, storage: Storage, after: int, limit: int) -> list[Event]:
        """Return the next events behind a number, without a gap: from here, or else from the store."""
        found: list[Event] = []
        missing = limit
        while self._events and len(found) < limit:
            try:
                event = self._events.popleft()
            except IndexError:  # cleared meanwhile
                break
            if event.number == after + len(found) + 1:
                found.append(event)
            elif event.number > after:
                self._events.appendleft(event)
                missing = event.number - after - 1
                break
        if not self._events:
            self._bytes = 0
        return found or storage.read(after, min(limit, missing))
