"""All that the stores in SQL have in common: everything but how to connect, to append, and to lead."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any, TypeVar
from zlib import crc32

from duelrank.errors import InvalidValue, StoreCorrupt
from duelrank.storage import statements
from duelrank.storage.base import Lease, Storage
from duelrank.storage.schema import Session
from duelrank.storage.values import (
    MOST_NUMBER,
    ApiKey,
    Event,
    NewEvent,
    Receipt,
    SnapshotInfo,
    StoredSnapshot,
    checked_body,
    checked_number,
    checked_text,
    checked_time,
)
from duelrank.storage.writer import GroupWriter

__all__ = ["SQLStorage", "checksum", "counter"]

T = TypeVar("T")

# So many events are pruned in one transaction: an append waits for one of these at most.
CHUNK = 500
# Of more than 5 KiB at a time, zlib lets other threads go first, and to get one's turn again takes longer than the sum.
PIECE = 5 << 10


class SQLStorage(Storage):
    """The part of a store that is the same in all databases; one thread writes, any thread reads."""

    def __init__(self) -> None:
        self._writer = GroupWriter(lambda events: self._transact(lambda session: self._insert(session, events)))
        self._leases, self._leading = dict[str, Lease](), Lock()

    @abstractmethod
    def _query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one reading statement, in any thread."""

    @abstractmethod
    def _transact(self, work: Callable[[Session], T]) -> T:
        """Run a function inside of a transaction, in the writer's thread; return when it is on the disk."""

    @abstractmethod
    def _insert(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events inside of a transaction."""

    @abstractmethod
    def _lead(self, name: str) -> Lease | None:
        """Become the holder of a name that this object does not hold, or return None where another one does."""

    def _write(self, work: Callable[[Session], T]) -> T:
        return self._writer.call(lambda: self._transact(work))

    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Hand over a batch to be appended."""
        return self._writer.submit(events)

    def read(self, after: int = 0, limit: int = 1000, ranker: str | None = None) -> list[Event]:
        """Return events in order."""
        place = (checked_number("after", after), checked_number("limit", limit, least=1))
        if ranker is None:
            return [_event(row) for row in self._query(statements.READ, *place)]
        return [_event(row) for row in self._query(statements.READ_OF_RANKER, checked_text("ranker", ranker), *place)]

    def find(self, ranker: str, kind: str, key: str) -> Event | None:
        """Return the event with a key."""
        rows = self._query(statements.FIND, *_checked_key(ranker, kind, key))
        return _event(rows[0]) if rows else None

    def known(self, ranker: str, kind: str, key: str) -> int | None:
        """Return the number that a key was given."""
        rows = self._query(statements.KNOWN, *_checked_key(ranker, kind, key))
        return rows[0][0] if rows else None

    def last_number(self) -> int:
        """Return the number of the newest event."""
        return counter(self._query(statements.LAST_NUMBER))

    def number_before(self, ranker: str, time: float) -> int:
        """Return the largest number up to which all events are older."""
        last = self.last_number()  # first: an event that is appended meanwhile must not count as old
        rows = self._query(statements.FIRST_SINCE, checked_text("ranker", ranker), checked_time(time))
        return min(last, rows[0][0] - 1) if rows else last

    def save_snapshot(self, ranker: str, number: int, time: float, body: bytes) -> None:
        """Keep a snapshot."""
        place = (checked_text("ranker", ranker), checked_number("number", number))
        row = (*place, checked_time(time), checksum(checked_body(body), *place), body)

        def save(session: Session) -> None:
            if number > (last := counter(session.rows(statements.LAST_NUMBER))):
                raise InvalidValue(f"a snapshot cannot cover event {number}: the newest event is {last}")
            session.run(statements.REMOVE_SNAPSHOT, *place)
            session.run(statements.ADD_SNAPSHOT, *row)

        self._write(save)

    def load_snapshot(self, ranker: str, at: int | None = None) -> StoredSnapshot | None:
        """Return a snapshot."""
        most = MOST_NUMBER if at is None else checked_number("at", at)
        rows = self._query(statements.LOAD_SNAPSHOT, checked_text("ranker", ranker), most)
        if not rows:
            return None
        number, time, expected, body = rows[0]
        if not _intact(expected, body, ranker, number):
            raise StoreCorrupt(f"the snapshot of {ranker!r} at event {number} is damaged; an older one may be whole")
        return StoredSnapshot(ranker, number, time, body)

    def snapshots(self, ranker: str) -> list[SnapshotInfo]:
        """Return what snapshots there are."""
        return [SnapshotInfo(*row) for row in self._query(statements.SNAPSHOTS, checked_text("ranker", ranker))]

    def prune_snapshots(self, ranker: str, keep: int, pinned: Collection[int] = ()) -> int:
        """Remove old snapshots."""
        checked_text("ranker", ranker)
        checked_number("keep", keep, least=1)
        pins = {checked_number("pinned", number) for number in pinned}

        def prune(session: Session) -> int:
            numbers = [row[1] for row in session.rows(statements.SNAPSHOTS, ranker)]
            old = [(ranker, number) for number in numbers[:-keep] if number not in pins]
            session.run_many(statements.REMOVE_SNAPSHOT, old)
            return len(old)

        return self._write(prune)

    def prune(self, ranker: str, up_to: int, *, keep: Collection[int] = (), forget: int = 0) -> int:
        """Remove the bodies of events."""
        checked_text("ranker", ranker)
        checked_number("up_to", up_to)
        kept = {checked_number("keep", number) for number in keep}
        forgotten = min(checked_number("forget", forget), up_to)
        self._write(lambda session: _cover(session, ranker, up_to))
        count = self._remove(statements.WHOLE, statements.REMOVE_BODY, ranker, up_to, kept)
        self._remove(statements.REMEMBERED, statements.FORGET, ranker, forgotten, kept)
        return count

    def _remove(self, which: str, how: str, ranker: str, up_to: int, kept: Collection[int]) -> int:
        """Remove bodies or whole events in small transactions; return how many."""
        count = after = 0
        while rows := self._query(which, ranker, after, up_to, CHUNK):
            after = rows[-1][0]
            chosen = [row for row in rows if row[0] not in kept]
            count += len(chosen)
            self._write(partial(_run_many, how, chosen))
        return count

    def pruned(self, ranker: str) -> int:
        """Return the largest number that a ranker was pruned up to."""
        rows = self._query(statements.PRUNED, checked_text("ranker", ranker))
        return rows[0][0] if rows else 0

    def add_key(self, key: ApiKey) -> None:
        """Keep the hash of an API key."""

        def add(session: Session) -> None:
            if session.rows(statements.HAS_KEY, key.id):
                raise InvalidValue(f"there is an API key {key.id!r} already")
            session.run(statements.ADD_KEY, key.id, key.hash, " ".join(key.scopes), key.created)

        self._write(add)

    def keys(self) -> list[ApiKey]:
        """Return all API keys."""
        rows = self._query(statements.KEYS)
        return [ApiKey(id, hash, tuple(scopes.split()), created) for id, hash, scopes, created in rows]

    def revoke_key(self, id: str) -> bool:
        """Remove an API key."""
        checked_text("id", id)
        return self._write(lambda session: session.run(statements.REMOVE_KEY, id)) > 0

    def try_lead(self, name: str) -> Lease | None:
        """Become the only holder of a name, or return None where another one is."""
        checked_text("name", name)
        with self._leading:
            if name in self._leases and self._leases[name].held():
                return None
            lease = self._lead(name)
            if lease is not None:
                self._leases[name] = lease
            return lease

    def ping(self) -> None:
        """Raise where the store does not answer."""
        self.last_number()

    def close(self) -> None:
        """Finish the appends and give up what is led."""
        self._writer.close()
        with self._leading:
            for lease in self._leases.values():
                lease.release()


def checksum(body: bytes, *others: str | float) -> int:
    """Return a number that hardly fits any other values."""
    found = crc32("\0".join(map(str, others)).encode())
    for start in range(0, len(body), PIECE):
        found = crc32(body[start : start + PIECE], found)
    return found


def counter(rows: list[tuple[Any, ...]]) -> int:
    """Return the one number that a statement gave, or raise where damage has left none."""
    if len(rows) == 1 and isinstance(rows[0][0], int):
        return rows[0][0]
    raise StoreCorrupt("the store's own counters are damaged; restore it from a backup")


def _intact(expected: Any, body: Any, *others: Any) -> bool:
    """Whether a checksum fits; in a damaged row, anything may have any type."""
    return isinstance(body, bytes) and checksum(body, *others) == expected


def _event(row: tuple[Any, ...]) -> Event:
    number, ranker, kind, key, time, expected, body = row
    if not _intact(expected, body, ranker, kind, key, time):
        raise StoreCorrupt(f"event {number} is damaged: its checksum does not fit; restore the store from a backup")
    return Event(number, ranker, kind, key, time, body)


def _checked_key(ranker: str, kind: str, key: str) -> tuple[str, str, str]:
    return checked_text("ranker", ranker), checked_text("kind", kind), checked_text("key", key)


def _run_many(statement: str, parameters: Sequence[Sequence[Any]], session: Session) -> None:
    if parameters:
        session.run_many(statement, parameters)


def _cover(session: Session, ranker: str, up_to: int) -> None:
    """Note that a ranker is pruned up to a number, or refuse where that would lose what no snapshot has."""
    newest = session.rows(statements.NEWEST_SNAPSHOT, ranker)[0][0]
    if newest is None or newest < up_to:
        have = "there is none" if newest is None else f"the newest covers event {newest}"
        raise InvalidValue(f"cannot prune {ranker!r} up to event {up_to} without a snapshot that covers it; {have}")
    session.run(statements.SET_PRUNED, ranker, up_to)
