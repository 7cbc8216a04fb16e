"""Feedback on its way in: which events are taken, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from duelrank.api import CLICK, FeedbackCounts, FeedbackEvent, Invalid
from duelrank.core.errors import DuelrankError, InvalidValue
from duelrank.core.validation import printable_name
from duelrank.serving.log.bodies import CLOSED, FEEDBACK, StoredFeedback, pack
from duelrank.serving.log.impressions import KnownImpression
from duelrank.serving.settings import Settings
from duelrank.storage import Event, NewEvent, Receipt

__all__ = ["InView", "Intake", "Rejected", "add_counts", "checked_action", "closing"]

#: Characters of the name of an action.
MOST_NAME = 100

_encode = msgspec.msgpack.Encoder().encode


class Rejected(msgspec.Struct, frozen=True):
    """An event that could not be decoded: it takes its place among the others, so that they are counted."""

    event_id: str | None
    reason: str


class InView(FeedbackEvent, frozen=True):
    """An event that says which document somebody has seen; the list was looked at as far as there, or as ``examined`` says."""

    document: str = ""


class Intake:
    """Some events of one request; each ends up in exactly one count.

    Parameters
    ----------
    name
        Of the ranker.
    events
        As they came.
    first
        The place of the first of them in its request.
    impressions
        What they are about, None for those that nobody knows.
    time
        Of their arrival.
    settings
        The limits.
    salt
        What ids of users are hashed with.
    """

    def __init__(
        self,
        name: str,
        events: Sequence[FeedbackEvent | Rejected],
        first: int,
        impressions: Mapping[str, KnownImpression | None],
        time: float,
        settings: Settings,
        salt: bytes | None = None,
    ) -> None:
        self._name, self._impressions, self._time, self._settings = name, impressions, time, settings
        self._salt = salt or b""
        self.new: list[NewEvent] = []
        self.late: list[str] = []  # ids of events about closed impressions: sent again, or too late
        self._closing: list[tuple[int, KnownImpression]] = []  # places in `new` of closings, and what they close
        self._feedback: list[int] = []  # places in `new` of feedback
        self._unknown = 0
        self._invalid: list[Invalid] = []
        for index, event in enumerate(events, first):
            self._sort(index, event)

    def _sort(self, index: int, event: FeedbackEvent | Rejected) -> None:
        if isinstance(event, Rejected):
            self._invalid.append(Invalid(index, event.event_id, event.reason))
            return
        impression = self._impressions.get(event.impression_id)
        if impression is None:
            self._unknown += 1
            return
        key = event.event_id if event.event_id is not None else made_up(event)
        if impression.closed or impression.body is None:
            self.late.append(key)
            return
        try:
            shown = impression.body.shown
            examined = _examined(event, shown)
            clicks = self._positions(index, event, shown)
            if clicks or event.close or examined is not None or not event.clicks:
                self._take(event, key, impression, clicks, examined)
        except DuelrankError as error:
            self._invalid.append(Invalid(index, event.event_id, str(error)))

    def _positions(self, index: int, event: FeedbackEvent, shown: Sequence[str]) -> list[int]:
        """Return where the clicked documents were shown; those that were not are reported."""
        if not event.clicks:
            return []
        places = {id: place for place, id in enumerate(shown)}
        missing = [id for id in event.clicks if id not in places]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            reason = f"not shown in this impression: {', '.join(map(repr, missing[:3]))}{more}"
            self._invalid.append(Invalid(index, event.event_id, reason))
        return sorted({places[id] for id in event.clicks if id in places})

    def _take(
        self, event: FeedbackEvent, key: str, impression: KnownImpression, clicks: list[int], examined: int | None
    ) -> None:
        if len(key) > self._settings.max_id:
            raise InvalidValue(f"an event_id has at most {self._settings.max_id} characters")
        user, action = self._user(event.user_id), checked_action(event.action)
        told = StoredFeedback(event.impression_id, clicks, examined, event.time, user, action)
        body = pack(told)
        stored = NewEvent(self._name, FEEDBACK, key, self._time, body)
        self._feedback.append(len(self.new))
        self.new.append(stored)
        if event.close:
            self._closing.append((len(self.new), impression))
            # An event id that was used before, for whatever impression, closes nothing.
            self.new.append(closing(self._name, event.impression_id, impression.number, self._time, follows=True))
            impression.closed = True

    def _user(self, id: str | None) -> bytes:
        """Return what is kept of a user: enough to know them again on the same day, and not who they are."""
        if not id:
            return b""
        return blake2b(id.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=8).digest()

    def settle(self, receipts: Sequence[Receipt] | None) -> None:
        """Open the impressions again that were not closed after all; whether they are closed is then asked again."""
        for place, impression in self._closing:
            impression.closed = receipts is not None and receipts[place].number > 0

    def count(self, receipts: Sequence[Receipt], known: Mapping[str, Event]) -> FeedbackCounts:
        """Return the counts, given what the log said, and which late events it has already."""
        accepted = sum(receipts[place].new for place in self._feedback)
        again = sum(key in known for key in self.late)
        return FeedbackCounts(
            accepted=accepted,
            duplicate=len(self._feedback) - accepted + again,
            unknown=self._unknown,
            expired=len(self.late) - again,
            invalid=self._invalid,
        )


def _examined(event: FeedbackEvent, shown: Sequence[str]) -> int | None:
    """Return how many positions of a list were looked at, None where nothing is said about that."""
    if isinstance(event, InView):
        if event.document in shown:
            return shown.index(event.document) + 1  # known better than a position that the client has counted
        if event.examined is None:
            raise InvalidValue(f"not shown in this impression: {event.document!r}")
    if event.examined is not None and not 0 <= event.examined <= len(shown):
        raise InvalidValue(f"examined is from 0 to {len(shown)}, the number of documents shown, got {event.examined}")
    return event.examined


def closing(name: str, id: str, number: int, time: float, follows: bool = False) -> NewEvent:
    """Return the event that closes an impression; its key is the impression's number, so that it is closed once."""
    return NewEvent(name, CLOSED, str(number), time, pack(id), follows=follows)


def checked_action(name: str) -> str:
    """Return the name of an action as it is kept: nothing for a click."""
    printable_name("the name of an action", name, MOST_NAME)
    return "" if name == CLICK else name


def add_counts(counts: Sequence[FeedbackCounts]) -> FeedbackCounts:
    """Return the sum of the counts of the parts of a request."""
    if len(counts) == 1:
        return counts[0]
    names = ("accepted", "duplicate", "unknown", "expired")
    totals = {name: sum(getattr(each, name) for each in counts) for name in names}
    return FeedbackCounts(**totals, invalid=[one for each in counts for one in each.invalid])


def made_up(event: FeedbackEvent) -> str:
    """Return an id for an event that came without, the same whenever the same is sent again."""
    # The order of the fields is that of the keys which are already in stores.
    names = ("impression_id", "event_id", "clicks", "examined", "close", "time")
    content = {name: getattr(event, name) for name in names}
    if event.action != CLICK:
        content["action"] = event.action
    return "=" + blake2b(_encode(content), digest_size=16).hexdigest()
