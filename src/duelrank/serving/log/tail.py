"""The newest events of the log, in memory: a leader that appended them itself need not read them from the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from duelrank.storage import Event, EventLog, NewEvent, Receipt

__all__ = ["Tail"]

MOST = 4000
MOST_BYTES = 32 << 20


class Tail:
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

    def take(self, log: EventLog, after: int, limit: int) -> list[Event]:
        """Return the next events behind a number, without a gap: from here, or else from the store.

        Where other processes append too, the next event is often not here. Then as many as allowed are read from the store,
        not only those up to the next one that is here: else a busy log would be read in pieces of one or two events.
        """
        found: list[Event] = []
        while self._events and len(found) < limit:
            try:
                event = self._events.popleft()
            except IndexError:  # cleared meanwhile
                break
            if event.number == after + len(found) + 1:
                found.append(event)
            elif event.number > after:
                self._events.appendleft(event)
                break
        if not self._events:
            self._bytes = 0
        return found or log.read(after, limit)
