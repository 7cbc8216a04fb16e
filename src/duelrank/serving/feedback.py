"""Feedback on its way in: which events are taken, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from duelrank.api import FeedbackCounts, FeedbackEvent, Invalid
from duelrank.errors import DuelrankError, InvalidValue
from duelrank.serving.log.bodies import Fed, pack
from duelrank.serving.log.recent import Entry
from duelrank.serving.settings import Settings
from duelrank.storage import NewEvent, Receipt

__all__ = ["Intake", "Rejected"]

_encode = msgspec.msgpack.Encoder().encode


class Rejected(msgspec.Struct, frozen=True):
    """An event that could not be decoded: it takes its place among the others, so that they are counted."""

    event_id: str | None
    reason: str


class Intake:
    """The events of one request; each ends up in exactly one count.

    Parameters
    ----------
    name
        Of the ranker.
    events
        As they came.
    entries
        The lists that they are about, None for those that nobody knows.
    time
        Of their arrival.
    settings
        The limits.
    """

    def __init__(
        self,
        name: str,
        events: Sequence[FeedbackEvent | Rejected],
        entries: dict[str, Entry | None],
        time: float,
        settings: Settings,
    ) -> None:
        self._name, self._entries, self._time, self._settings = name, entries, time, settings
        self.new: list[NewEvent] = []  # to be appended
        self.late: list[str] = []  # ids of events about closed lists: sent again, or too late
        self.closing: list[Entry] = []  # lists that these events close
        self._fed: list[int] = []  # places in `new` that are feedback
        self._unknown = 0
        self._invalid: list[Invalid] = []
        for index, event in enumerate(events):
            self._sort(index, event)

    def _sort(self, index: int, event: FeedbackEvent | Rejected) -> None:
        if isinstance(event, Rejected):
            self._invalid.append(Invalid(index, event.event_id, event.reason))
            return
        entry = self._entries.get(event.impression_id)
        if entry is None:
            self._unknown += 1
            return
        key = event.event_id if event.event_id is not None else made_up(event)
        if entry.closed:
            self.late.append(key)
            return
        try:
            clicks = self._positions(index, event, entry)
            if clicks or event.close or event.examined is not None or not event.clicks:
                self._take(event, key, entry, clicks)
        except DuelrankError as error:
            self._invalid.append(Invalid(index, event.event_id, str(error)))

    def _positions(self, index: int, event: FeedbackEvent, entry: Entry) -> list[int]:
        """Return where the clicked documents were shown; those that were not are reported."""
        shown = entry.shown_ids()
        if event.examined is not None and not 0 <= event.examined <= len(shown):
            raise InvalidValue(f"examined is from 0 to {len(shown)}, the length of the list, got {event.examined}")
        if not event.clicks:
            return []
        places = {id: place for place, id in enumerate(shown)}
        missing = [id for id in event.clicks if id not in places]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            reason = f"not shown in this list: {', '.join(map(repr, missing[:3]))}{more}"
            self._invalid.append(Invalid(index, event.event_id, reason))
        return sorted({places[id] for id in event.clicks if id in places})

    def _take(self, event: FeedbackEvent, key: str, entry: Entry, clicks: list[int]) -> None:
        if len(key) > self._settings.max_id:
            raise InvalidValue(f"an event's id has at most {self._settings.max_id} characters")
        body = pack(Fed(event.impression_id, clicks, event.examined, event.time))
        fed = NewEvent(self._name, "feedback", key, self._time, body)
        self._fed.append(len(self.new))
        self.new.append(fed)
        if event.close:
            self.new.append(closing(self._name, event.impression_id, entry.number, self._time))
            entry.closed = True
            self.closing.append(entry)

    def count(self, receipts: Sequence[Receipt], again: int) -> FeedbackCounts:
        """Return the counts, given what the store said, and how many late events it knew already."""
        accepted = sum(receipts[place].new for place in self._fed)
        return FeedbackCounts(
            accepted=accepted,
            duplicate=len(self._fed) - accepted + again,
            unknown=self._unknown,
            expired=len(self.late) - again,
            invalid=self._invalid,
        )


def closing(name: str, impression: str, number: int, time: float) -> NewEvent:
    """Return the event that closes a list; its key is the number of the list, so that a list is closed once."""
    return NewEvent(name, "closed", str(number), time, pack(impression))


def made_up(event: FeedbackEvent) -> str:
    """Return an id for an event that came without, the same whenever the same is sent again."""
    # The order of the fields is that of the keys which are already in stores.
    names = ("impression_id", "event_id", "clicks", "examined", "close", "time")
    content = {name: getattr(event, name) for name in names}
    return "=" + blake2b(_encode(content), digest_size=16).hexdigest()
