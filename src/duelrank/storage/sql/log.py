"""The event log in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from duelrank.core.errors import InvalidValue, StoreCorrupt
from duelrank.storage.base import EventLog
from duelrank.storage.sql.checksums import intact
from duelrank.storage.sql.database import LAST_NUMBER, Database, Session, counter
from duelrank.storage.values import Event, NewEvent, Receipt, checked_number, checked_text, checked_time

__all__ = ["SQLEventLog"]

READ = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_bodies JOIN duelrank_events USING (number)
    WHERE number > ? ORDER BY number LIMIT ?"""
READ_OF_RANKER = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND number > ? ORDER BY number LIMIT ?"""
ATTACHMENT = "SELECT checksum, body FROM duelrank_attachments WHERE ranker = ? AND number = ?"
FIRST_SINCE = """
    SELECT number FROM duelrank_events WHERE ranker = ? AND number > ? AND time >= ? ORDER BY number LIMIT 1"""

# What can be removed, and how: each statement takes (ranker, first number, last number).
WITH_ATTACHMENT = """
    SELECT ranker, number FROM duelrank_attachments
    WHERE ranker = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"""
ALL = """
    SELECT ranker, number FROM duelrank_events
    WHERE ranker = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"""
REMOVE_ATTACHMENTS = "DELETE FROM duelrank_attachments WHERE ranker = ? AND number BETWEEN ? AND ?"
REMOVE_BODIES = """
    DELETE FROM duelrank_bodies
    WHERE number IN (SELECT number FROM duelrank_events WHERE ranker = ? AND number BETWEEN ? AND ?)"""
REMOVE_EVENTS = "DELETE FROM duelrank_events WHERE ranker = ? AND number BETWEEN ? AND ?"

NEWEST_CHECKPOINT = "SELECT max(number) FROM duelrank_snapshots WHERE ranker = ? AND kind = 'checkpoint'"
DROPPED = "SELECT up_to FROM duelrank_pruned WHERE ranker = ?"
SET_DROPPED = """
    INSERT INTO duelrank_pruned (ranker, up_to) VALUES (?, ?)
    ON CONFLICT (ranker) DO UPDATE SET up_to = excluded.up_to WHERE excluded.up_to > duelrank_pruned.up_to"""

# So many events are removed in one transaction: an append waits for one of these at most.
CHUNK = 500
# So many answers of `number_before` are remembered for each ranker.
REMEMBERED = 4


class SQLEventLog(EventLog):
    """The event log in the tables of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._older: dict[str, tuple[tuple[float, int], ...]] = {}

    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Hand over a batch to be appended."""
        return self._database.submit(events)

    def read(self, after: int = 0, limit: int = 1000, ranker: str | None = None) -> list[Event]:
        """Return events in order."""
        place = (checked_number("after", after), checked_number("limit", limit, least=1))
        if ranker is None:
            return [_event(row) for row in self._database.query(READ, *place)]
        return [_event(row) for row in self._database.query(READ_OF_RANKER, checked_text("ranker", ranker), *place)]

    def find(self, ranker: str, kind: str, keys: Collection[str]) -> dict[str, Event]:
        """Return events by their keys."""
        asked = list(dict.fromkeys(checked_text("key", key) for key in keys))
        rows = self._database.find(checked_text("ranker", ranker), checked_text("kind", kind), asked)
        return {row[3]: _event(row) for row in rows}

    def attachment(self, ranker: str, number: int) -> bytes | None:
        """Return the attachment of an event."""
        place = (checked_text("ranker", ranker), checked_number("number", number))
        rows = self._database.query(ATTACHMENT, *place)
        if not rows:
            return None
        expected, body = rows[0]
        if not intact(expected, body, *place):
            raise StoreCorrupt(f"the attachment of event {number} is damaged; restore the store from a backup")
        attachment: bytes = body
        return attachment

    def last_number(self) -> int:
        """Return the number of the newest event."""
        return counter(self._database.query(LAST_NUMBER))

    def number_before(self, ranker: str, time: float) -> int:
        """Return the largest number up to which all events are older.

        Events up to an earlier answer for an earlier time need not be looked at again: new ones have larger numbers.
        """
        asked, last = checked_time(time), self.last_number()  # first: what is appended meanwhile must not count as old
        answers = self._older.get(checked_text("ranker", ranker), ())
        start = max((number for moment, number in answers if moment <= asked), default=0)
        rows = self._database.query(FIRST_SINCE, ranker, start, asked)
        number = min(last, rows[0][0] - 1) if rows else last
        self._older[ranker] = (*answers[1 - REMEMBERED :], (asked, number))
        return number

    def drop_attachments(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove attachments."""
        place, kept = _checked_range(ranker, up_to, keep)
        self._check_covered(*place)
        self._note_dropped(*place)
        return self._remove(WITH_ATTACHMENT, (REMOVE_ATTACHMENTS,), *place, kept, limit)

    def dropped(self, ranker: str) -> int:
        """Return the largest number up to which data was removed."""
        rows = self._database.query(DROPPED, checked_text("ranker", ranker))
        return rows[0][0] if rows else 0

    def delete(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove events."""
        place, kept = _checked_range(ranker, up_to, keep)
        self._note_dropped(*place)
        return self._remove(ALL, (REMOVE_ATTACHMENTS, REMOVE_BODIES, REMOVE_EVENTS), *place, kept, limit)

    def _check_covered(self, ranker: str, up_to: int) -> None:
        """Refuse to drop attachments where that would lose what no checkpoint has."""
        newest = self._database.query(NEWEST_CHECKPOINT, ranker)[0][0]
        if newest is None or newest < up_to:
            have = "there is none" if newest is None else f"the newest covers event {newest}"
            raise InvalidValue(
                f"cannot drop attachments of {ranker!r} up to event {up_to} without a checkpoint that covers it; {have}"
            )

    def _note_dropped(self, ranker: str, up_to: int) -> None:
        """Note that data is removed up to a number, before any is; a run of the retention that removes nothing writes nothing."""
        if self.dropped(ranker) < up_to:
            self._database.write(lambda session: session.run(SET_DROPPED, ranker, up_to))

    def _remove(
        self, which: str, how: Sequence[str], ranker: str, up_to: int, kept: Collection[int], limit: int | None
    ) -> int:
        """Remove attachments or whole events in small transactions; return how many."""
        count = after = 0
        while limit is None or count < limit:
            chunk = CHUNK if limit is None else min(CHUNK, limit - count)
            rows = self._database.query(which, ranker, after, up_to, chunk)
            if not rows:
                break
            after = rows[-1][1]
            runs = _runs([row[1] for row in rows], kept)
            count += sum(length for _, _, length in runs)
            if runs:
                self._database.write(partial(_run_many, how, [(ranker, first, last) for first, last, _ in runs]))
        return count


def _runs(numbers: Sequence[int], kept: Collection[int]) -> list[tuple[int, int, int]]:
    """Return the first number, the last number and the length of each run of numbers between those that are kept."""
    runs: list[tuple[int, int, int]] = []
    start = None
    for index, number in enumerate(numbers):
        if number in kept:
            start = None
        elif start is None:
            start = index
            runs.append((number, number, 1))
        else:
            runs[-1] = (runs[-1][0], number, index - start + 1)
    return runs


def _event(row: tuple[Any, ...]) -> Event:
    number, ranker, kind, key, time, expected, body = row
    if not intact(expected, body, ranker, kind, key, time):
        raise StoreCorrupt(f"event {number} is damaged: its checksum does not fit; restore the store from a backup")
    return Event(number, ranker, kind, key, time, body)


def _checked_range(ranker: str, up_to: int, keep: Collection[int]) -> tuple[tuple[str, int], set[int]]:
    place = (checked_text("ranker", ranker), checked_number("up_to", up_to))
    return place, {checked_number("keep", number) for number in keep}


def _run_many(statements: Sequence[str], parameters: Sequence[Sequence[Any]], session: Session) -> None:
    for statement in statements:
        session.run_many(statement, parameters)
