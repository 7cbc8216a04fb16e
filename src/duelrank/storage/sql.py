"""The part of a store that is the same in all SQL databases: tables, checksums, event log, snapshots, API keys and leases."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

from duelrank.core.errors import InvalidValue, StoreCorrupt, StoreTooNew
from duelrank.storage.base import (
    ApiKey,
    Event,
    EventLog,
    Keys,
    Lease,
    Leases,
    NewEvent,
    Receipt,
    SnapshotInfo,
    Snapshots,
    Storage,
    StoredSnapshot,
    checked_body,
    checked_number,
    checked_text,
    checked_time,
)
from duelrank.storage.writer import GroupWriter

T = TypeVar("T")
Rows: TypeAlias = list[tuple[Any, ...]]
Migration: TypeAlias = tuple[str, ...]  # statements; {whole}, {real} and {bytes} stand for the types of the dialect

#: Migration n updates a store from version n - 1 to version n. Never change a released migration: add another one.
MIGRATIONS: tuple[Migration, ...] = (
    (
        # One row. Each append updates it first and thereby locks out all others until the commit: this is why numbers
        # become visible in their order.
        "CREATE TABLE duelrank_meta (version {whole} NOT NULL, last_number {whole} NOT NULL)",
        "INSERT INTO duelrank_meta VALUES (0, 0)",
        # Bodies have a table of their own: statements that need only keys, numbers or times do not read them.
        """CREATE TABLE duelrank_events (
            number {whole} PRIMARY KEY, ranker TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
            time {real} NOT NULL, UNIQUE (ranker, kind, key))""",
        "CREATE INDEX duelrank_events_by_ranker ON duelrank_events (ranker, number, time)",
        """CREATE TABLE duelrank_bodies (
            number {whole} PRIMARY KEY, checksum {whole} NOT NULL, body {bytes} NOT NULL)""",
        """CREATE TABLE duelrank_snapshots (
            ranker TEXT NOT NULL, number {whole} NOT NULL, time {real} NOT NULL, checksum {whole} NOT NULL,
            body {bytes} NOT NULL, PRIMARY KEY (ranker, number))""",
        "CREATE TABLE duelrank_pruned (ranker TEXT PRIMARY KEY, up_to {whole} NOT NULL)",
        """CREATE TABLE duelrank_keys (
            id TEXT PRIMARY KEY, hash {bytes} NOT NULL, scopes TEXT NOT NULL, created {real} NOT NULL)""",
    ),
    (
        # Large data of an event that is removed before the event is.
        """CREATE TABLE duelrank_attachments (
            ranker TEXT NOT NULL, number {whole} NOT NULL, checksum {whole} NOT NULL, body {bytes} NOT NULL,
            PRIMARY KEY (ranker, number))""",
        # Snapshots get a kind; before, the versions of a ranker had the name "ranker/model".
        "ALTER TABLE duelrank_snapshots RENAME TO duelrank_snapshots_1",
        """CREATE TABLE duelrank_snapshots (
            ranker TEXT NOT NULL, kind TEXT NOT NULL, number {whole} NOT NULL, time {real} NOT NULL,
            checksum {whole} NOT NULL, body {bytes} NOT NULL, PRIMARY KEY (ranker, kind, number))""",
        """INSERT INTO duelrank_snapshots SELECT substr(ranker, 1, length(ranker) - 6), 'version', number, time, checksum, body
            FROM duelrank_snapshots_1 WHERE substr(ranker, length(ranker) - 5) = '/model'""",
        """INSERT INTO duelrank_snapshots SELECT ranker, 'checkpoint', number, time, checksum, body
            FROM duelrank_snapshots_1 WHERE substr(ranker, length(ranker) - 5) <> '/model'""",
        "DROP TABLE duelrank_snapshots_1",
        "ALTER TABLE duelrank_keys ADD COLUMN rankers TEXT NOT NULL DEFAULT '[]'",
        # Heartbeats; the holder is the id that the database gives to its client.
        "CREATE TABLE duelrank_leases (name TEXT PRIMARY KEY, holder {whole} NOT NULL, beat {real} NOT NULL)",
    ),
)

#: All tables of the newest version.
TABLES = tuple(
    f"duelrank_{name}" for name in ("meta", "events", "bodies", "attachments", "snapshots", "pruned", "keys", "leases")
)

LAST_NUMBER = "SELECT last_number FROM duelrank_meta"

# For more than 5 KiB at a time, zlib releases the global interpreter lock; waiting for it again takes longer than the sum.
PIECE = 5 << 10


def checksum(body: bytes, *others: str | float) -> int:
    """Return the CRC-32 of a row: of its other values, as text, followed by its body."""
    found = crc32("\0".join(map(str, others)).encode())
    for start in range(0, len(body), PIECE):
        found = crc32(body[start : start + PIECE], found)
    return found


def body_checksum(event: NewEvent) -> int:
    """Return the checksum of the row with the body of an event."""
    return checksum(event.body, event.ranker, event.kind, event.key, event.time)


def is_intact(expected: Any, body: Any, *others: Any) -> bool:
    """Whether a row has the expected checksum; the values of a damaged row may have any type."""
    return isinstance(body, bytes) and checksum(body, *others) == expected


def counter(rows: Rows) -> int:
    """Return the one number that a statement selects, or raise an error if it is missing or damaged."""
    if len(rows) == 1 and isinstance(rows[0][0], int):
        return rows[0][0]
    raise StoreCorrupt("the store's own counters are damaged; restore it from a backup")


class Session:
    """A connection inside a transaction.

    Parameters
    ----------
    connection
        Connection of a DB-API driver with a method ``execute``.
    native
        Function that translates a statement, which has a ``?`` for each parameter, for the driver.
    """

    def __init__(self, connection: Any, native: Callable[[str], Any] = str) -> None:
        self._connection, self._native = connection, native

    def rows(self, statement: str, *parameters: Any) -> Rows:
        """Execute a statement and return its rows."""
        rows: Rows = self._connection.execute(self._native(statement), parameters).fetchall()
        return rows

    def run(self, statement: str, *parameters: Any) -> int:
        """Execute a statement and return the number of changed rows."""
        count: int = self._connection.execute(self._native(statement), parameters).rowcount
        return count

    def run_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Execute a statement once for each sequence of parameters."""
        self._connection.cursor().executemany(self._native(statement), parameters)


def check_version(version: int, newest: int) -> None:
    """Raise an error if a store has a later version than the newest known one."""
    if version > newest:
        raise StoreTooNew(
            f"this store has version {version}, and this duelrank knows versions up to {newest}: it was written by a later "
            "duelrank, which can read it"
        )


def migrate(session: Session, version: int, migrations: Sequence[Migration], types: Mapping[str, str]) -> None:
    """Update a store from a version (0: an empty one) to the newest, inside a transaction of the caller."""
    check_version(version, len(migrations))
    for migration in migrations[version:]:
        for statement in migration:
            session.run(statement.format(**types))
    if version < len(migrations):
        session.run("UPDATE duelrank_meta SET version = ?", len(migrations))


class SQLStorage(Storage):
    """A store in a SQL database: one thread writes, any thread reads.

    A subclass connects to the database, calls `migrate`, and then calls this constructor.
    """

    leases: HeldLeases
    #: Appended to the statement that reads the number of the newest event, so that no other process appends at the same time.
    row_lock = ""

    def __init__(self) -> None:
        self._writer = GroupWriter(self.append)
        self.submit = self._writer.submit
        self.log, self.snapshots, self.keys = SQLEventLog(self), _SQLSnapshots(self), _SQLKeys(self)
        self.leases = HeldLeases(self.take_lease)

    @abstractmethod
    def query(self, statement: str, *parameters: Any) -> Rows:
        """Execute one reading statement, in any thread."""

    @abstractmethod
    def transact(self, work: Callable[[Session], T]) -> T:
        """Call a function inside a transaction, in the writer's thread; return when the transaction is on the disk."""

    @abstractmethod
    def insert_rows(self, session: Session, table: str, rows: Rows) -> int:
        """Insert rows into the table of events, bodies or attachments; return the number of inserted rows."""

    @abstractmethod
    def known_numbers(self, session: Session, keys: Rows) -> Rows:
        """Return (ranker, kind, key, number) of those events whose (ranker, kind, key) is in the log."""

    @abstractmethod
    def find_rows(self, ranker: str, kind: str, keys: Sequence[str]) -> Rows:
        """Return the rows of the events that have one of the keys: all columns of events and bodies."""

    @abstractmethod
    def attachment_rows(self, ranker: str, numbers: Sequence[int]) -> Rows:
        """Return (number, checksum, body) of the attachments of a ranker's events."""

    @abstractmethod
    def take_lease(self, name: str) -> Lease | None:
        """Return a lease on a name that this store does not hold, or None if another process holds it."""

    def write(self, work: Callable[[Session], T]) -> T:
        """Call a function inside a transaction, and wait until the transaction is on the disk; in any thread."""
        return self._writer.call(lambda: self.transact(work))

    def append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events in one transaction, in the writer's thread; return when it is on the disk."""
        return self.transact(lambda session: self.append_events(session, events))

    def append_events(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events inside a transaction."""
        last = counter(session.rows(LAST_NUMBER + self.row_lock))
        receipts = self.insert_new(session, events, last) if events else []
        new = [(receipt.number, event) for receipt, event in zip(receipts, events, strict=True) if receipt.new]
        if new:
            bodies = [(number, body_checksum(event), event.body) for number, event in new]
            attachments = [
                (event.ranker, number, checksum(event.attachment, event.ranker, number), event.attachment)
                for number, event in new
                if event.attachment is not None
            ]
            self.insert_rows(session, "bodies", bodies)
            self.insert_rows(session, "attachments", attachments)
            session.run("UPDATE duelrank_meta SET last_number = ?", new[-1][0])
        return receipts

    def insert_new(self, session: Session, events: Sequence[NewEvent], last: int) -> list[Receipt]:
        """Insert the rows of new events, numbered from ``last`` + 1, and return the receipts of all events."""
        rows = self.known_numbers(session, [_identity(event) for event in events])
        numbers = {(ranker, kind, key): number for ranker, kind, key, number in rows}
        receipts: list[Receipt] = []
        for event in events:
            identity = _identity(event)
            if event.follows and not receipts[-1].new:
                receipts.append(Receipt(0, False))
            elif identity in numbers:
                receipts.append(Receipt(numbers[identity], False))
            else:
                numbers[identity] = last = last + 1
                receipts.append(Receipt(last, True))
        self.insert_rows(session, "events", rows_of_new(events, receipts))
        return receipts

    def ping(self) -> None:
        """Raise an error if the database does not answer."""
        self.log.last_number()

    def close(self) -> None:
        """Finish the appends and release the leases; a subclass then closes its connections."""
        self._writer.close()
        self.leases.close()


def _identity(event: NewEvent) -> tuple[str, str, str]:
    return event.ranker, event.kind, event.key


def rows_of_new(events: Sequence[NewEvent], receipts: Sequence[Receipt]) -> Rows:
    """Return the rows of new events for the table of events."""
    return [
        (receipt.number, event.ranker, event.kind, event.key, event.time)
        for event, receipt in zip(events, receipts, strict=True)
        if receipt.new
    ]


READ = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_bodies JOIN duelrank_events USING (number)
    WHERE number > ? ORDER BY number LIMIT ?"""
READ_RANKER = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND number > ? ORDER BY number LIMIT ?"""
FIRST_SINCE = """
    SELECT number FROM duelrank_events WHERE ranker = ? AND number > ? AND time >= ? ORDER BY number LIMIT 1"""

# Statements that select rows to remove take (ranker, number before the first, last number, limit).
SELECT_ATTACHMENTS = """
    SELECT number FROM duelrank_attachments WHERE ranker = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"""
SELECT_EVENTS = """
    SELECT number FROM duelrank_events WHERE ranker = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?"""
# Statements that remove rows take (ranker, first number, last number).
REMOVE_ATTACHMENTS = "DELETE FROM duelrank_attachments WHERE ranker = ? AND number BETWEEN ? AND ?"
REMOVE_BODIES = """
    DELETE FROM duelrank_bodies
    WHERE number IN (SELECT number FROM duelrank_events WHERE ranker = ? AND number BETWEEN ? AND ?)"""
REMOVE_EVENTS = "DELETE FROM duelrank_events WHERE ranker = ? AND number BETWEEN ? AND ?"

NEWEST_CHECKPOINT = "SELECT max(number) FROM duelrank_snapshots WHERE ranker = ? AND kind = 'checkpoint'"
SET_DROPPED = """
    INSERT INTO duelrank_pruned (ranker, up_to) VALUES (?, ?)
    ON CONFLICT (ranker) DO UPDATE SET up_to = excluded.up_to WHERE excluded.up_to > duelrank_pruned.up_to"""

# Number of events that one transaction removes; an append waits for at most one such transaction.
CHUNK = 500
# Number of results of `number_before` that are remembered for each ranker.
REMEMBERED = 4


class SQLEventLog(EventLog):
    """The event log of a `SQLStorage`."""

    def __init__(self, store: SQLStorage) -> None:
        self._store = store
        self._older: dict[str, tuple[tuple[float, int], ...]] = {}

    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Queue a batch to be appended."""
        return self._store.submit(events)

    def read(self, after: int = 0, limit: int = 1000, ranker: str | None = None) -> list[Event]:
        """Return events in order."""
        page = (checked_number("after", after), checked_number("limit", limit, least=1))
        if ranker is None:
            return [_event(row) for row in self._store.query(READ, *page)]
        return [_event(row) for row in self._store.query(READ_RANKER, checked_text("ranker", ranker), *page)]

    def find(self, ranker: str, kind: str, keys: Collection[str]) -> dict[str, Event]:
        """Return events by their keys."""
        unique = list(dict.fromkeys(checked_text("key", key) for key in keys))
        rows = self._store.find_rows(*_checked(ranker, kind), unique)
        return {row[3]: _event(row) for row in rows}

    def attachments(self, ranker: str, numbers: Collection[int]) -> dict[int, bytes]:
        """Return the attachments of events."""
        wanted = [checked_number("number", number) for number in numbers]
        found = {}
        for number, expected, body in self._store.attachment_rows(checked_text("ranker", ranker), wanted):
            if not is_intact(expected, body, ranker, number):
                raise StoreCorrupt(f"the attachment of event {number} is damaged; restore the store from a backup")
            found[number] = body
        return found

    def last_number(self) -> int:
        """Return the number of the newest event."""
        return counter(self._store.query(LAST_NUMBER))

    def number_before(self, ranker: str, time: float) -> int:
        """Return the largest number up to which all events are older.

        Events up to an earlier result for an earlier time are not read again: new ones have larger numbers.
        """
        before, last = checked_time(time), self.last_number()  # read first: events appended meanwhile must not count
        results = self._older.get(checked_text("ranker", ranker), ())
        start = max((number for earlier, number in results if earlier <= before), default=0)
        rows = self._store.query(FIRST_SINCE, ranker, start, before)
        number = min(last, rows[0][0] - 1) if rows else last
        self._older[ranker] = (*results[1 - REMEMBERED :], (before, number))
        return number

    def drop_attachments(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove attachments."""
        place, kept = _checked_range(ranker, up_to, keep)
        self._check_covered(*place)
        return self._remove(SELECT_ATTACHMENTS, (REMOVE_ATTACHMENTS,), *place, kept, limit)

    def dropped(self, ranker: str) -> int:
        """Return the largest number up to which data was removed."""
        rows = self._store.query("SELECT up_to FROM duelrank_pruned WHERE ranker = ?", checked_text("ranker", ranker))
        return rows[0][0] if rows else 0

    def delete(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove events."""
        place, kept = _checked_range(ranker, up_to, keep)
        return self._remove(SELECT_EVENTS, (REMOVE_ATTACHMENTS, REMOVE_BODIES, REMOVE_EVENTS), *place, kept, limit)

    def _check_covered(self, ranker: str, up_to: int) -> None:
        """Raise an error if no checkpoint covers the events whose attachments are to be dropped."""
        newest = self._store.query(NEWEST_CHECKPOINT, ranker)[0][0]
        if newest is None or newest < up_to:
            have = "the ranker has no checkpoint" if newest is None else f"the newest covers event {newest}"
            raise InvalidValue(
                f"cannot drop attachments of {ranker!r} up to event {up_to} without a checkpoint that covers it; {have}"
            )

    def _remove(
        self, select: str, remove: Sequence[str], ranker: str, up_to: int, kept: Collection[int], limit: int | None
    ) -> int:
        """Remove attachments or whole events in small transactions; return their number."""
        if self.dropped(ranker) < up_to:  # written before anything is removed, so that an interruption cannot hide it
            self._store.write(lambda session: session.run(SET_DROPPED, ranker, up_to))
        count = after = 0
        while limit is None or count < limit:
            chunk = CHUNK if limit is None else min(CHUNK, limit - count)
            numbers = [number for (number,) in self._store.query(select, ranker, after, up_to, chunk)]
            if not numbers:
                break
            after = numbers[-1]
            runs = _runs(numbers, kept)
            count += sum(length for _, _, length in runs)
            if runs:
                self._store.write(partial(_run_each, remove, [(ranker, first, last) for first, last, _ in runs]))
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


def _run_each(statements: Sequence[str], parameters: Sequence[Sequence[Any]], session: Session) -> None:
    for statement in statements:
        session.run_many(statement, parameters)


def _event(row: tuple[Any, ...]) -> Event:
    number, ranker, kind, key, time, expected, body = row
    if not is_intact(expected, body, ranker, kind, key, time):
        raise StoreCorrupt(f"event {number} is damaged: its checksum differs; restore the store from a backup")
    return Event(number, ranker, kind, key, time, body)


def _checked_range(ranker: str, up_to: int, keep: Collection[int]) -> tuple[tuple[str, int], set[int]]:
    place = (checked_text("ranker", ranker), checked_number("up_to", up_to))
    return place, {checked_number("keep", number) for number in keep}


def _checked(ranker: str, kind: str) -> tuple[str, str]:
    return checked_text("ranker", ranker), checked_text("kind", kind)


SELECT_SNAPSHOTS = "SELECT number, time, checksum, body FROM duelrank_snapshots WHERE ranker = ? AND kind = ?"
SELECT_NUMBERS = "SELECT number FROM duelrank_snapshots WHERE ranker = ? AND kind = ? ORDER BY number"
LIST_SNAPSHOTS = """
    SELECT ranker, kind, number, time, length(body) FROM duelrank_snapshots
    WHERE ranker = ? AND kind = ? ORDER BY number"""
ADD_SNAPSHOT = """
    INSERT INTO duelrank_snapshots (ranker, kind, number, time, checksum, body) VALUES (?, ?, ?, ?, ?, ?)"""
REMOVE_SNAPSHOT = "DELETE FROM duelrank_snapshots WHERE ranker = ? AND kind = ? AND number = ?"
REMOVE_ALL = ("DELETE FROM duelrank_snapshots WHERE ranker = ?", "DELETE FROM duelrank_pruned WHERE ranker = ?")


class _SQLSnapshots(Snapshots):
    """The snapshots of a `SQLStorage`."""

    def __init__(self, store: SQLStorage) -> None:
        self._store = store

    def save(self, ranker: str, kind: str, number: int, time: float, body: bytes, keep: int | None = None) -> None:
        row_key = (*_checked(ranker, kind), checked_number("number", number))
        row = (*row_key, checked_time(time), checksum(checked_body(body), *_checksum_values(*row_key)), body)

        def save(session: Session) -> None:
            if kind == "checkpoint" and number > (last := counter(session.rows(LAST_NUMBER))):
                raise InvalidValue(f"a checkpoint cannot cover event {number}: the newest event is {last}")
            session.run(REMOVE_SNAPSHOT, *row_key)
            session.run(ADD_SNAPSHOT, *row)
            if keep is not None:
                _prune(session, row_key[:2], checked_number("keep", keep, least=1))

        self._store.write(save)

    def load(self, ranker: str, kind: str, number: int | None = None) -> StoredSnapshot | None:
        owner = _checked(ranker, kind)
        if number is None:
            rows = self._store.query(f"{SELECT_SNAPSHOTS} ORDER BY number DESC LIMIT 1", *owner)
        else:
            rows = self._store.query(f"{SELECT_SNAPSHOTS} AND number = ?", *owner, checked_number("number", number))
        for found, time, expected, body in rows:
            if not is_intact(expected, body, *_checksum_values(*owner, found)):
                raise StoreCorrupt(f"the {kind} {found} of {ranker!r} is damaged; an older one may be intact")
            return StoredSnapshot(ranker, kind, found, time, body)
        return None

    def newest(self, kind: str) -> dict[str, int]:
        statement = "SELECT ranker, max(number) FROM duelrank_snapshots WHERE kind = ? GROUP BY ranker"
        return dict(self._store.query(statement, checked_text("kind", kind)))

    def prune(self, ranker: str, kind: str, keep: int, needed: Collection[int] = ()) -> int:
        owner = _checked(ranker, kind)
        checked_number("keep", keep, least=1)
        kept = {checked_number("needed", number) for number in needed}
        return self._store.write(lambda session: _prune(session, owner, keep, kept))

    def delete(self, ranker: str) -> None:
        self._store.write(partial(_run_each, REMOVE_ALL, [(checked_text("ranker", ranker),)]))

    def list(self, ranker: str, kind: str) -> list[SnapshotInfo]:
        return [SnapshotInfo(*row) for row in self._store.query(LIST_SNAPSHOTS, *_checked(ranker, kind))]


def _prune(session: Session, owner: tuple[str, str], keep: int, needed: Collection[int] = ()) -> int:
    """Remove the snapshots of a ranker and kind except the newest and the needed ones; return the number of removed ones."""
    numbers = [number for (number,) in session.rows(SELECT_NUMBERS, *owner)]
    old = [(*owner, number) for number in numbers[:-keep] if number not in needed]
    if old:
        session.run_many(REMOVE_SNAPSHOT, old)
    return len(old)


def _checksum_values(ranker: str, kind: str, number: int) -> tuple[str, int]:
    """Return the values that a checksum covers in addition to the body; two kinds keep the names that they had in version 1."""
    return {"checkpoint": ranker, "version": f"{ranker}/model"}.get(kind, f"{ranker}/{kind}"), number


class _SQLKeys(Keys):
    """The API keys of a `SQLStorage`."""

    def __init__(self, store: SQLStorage) -> None:
        self._store = store

    def add(self, key: ApiKey) -> None:
        row = (key.id, key.hash, " ".join(key.scopes), key.created, json.dumps(key.rankers))

        def add(session: Session) -> None:
            if session.rows("SELECT id FROM duelrank_keys WHERE id = ?", key.id):
                raise InvalidValue(f"there is an API key {key.id!r} already")
            session.run("INSERT INTO duelrank_keys (id, hash, scopes, created, rankers) VALUES (?, ?, ?, ?, ?)", *row)

        self._store.write(add)

    def list(self) -> list[ApiKey]:
        rows = self._store.query("SELECT id, hash, scopes, created, rankers FROM duelrank_keys ORDER BY created, id")
        return [_key(*row) for row in rows]

    def revoke(self, id: str) -> bool:
        checked_text("id", id)
        return self._store.write(lambda session: session.run("DELETE FROM duelrank_keys WHERE id = ?", id)) > 0


def _key(id: Any, hash: Any, scopes: Any, created: Any, rankers: Any) -> ApiKey:
    try:
        return ApiKey(id, hash, tuple(scopes.split()), created, tuple(json.loads(rankers)))
    except (InvalidValue, AttributeError, TypeError, ValueError):
        raise StoreCorrupt(f"the API key {id!r} is damaged; revoke it, and create another") from None


class HeldLeases(Leases):
    """The leases that this store holds: each name at most once, and none after it was closed.

    Parameters
    ----------
    take
        Function that returns a lease on a name that this store does not hold, or None if another process holds it.
    """

    def __init__(self, take: Callable[[str], Lease | None]) -> None:
        self._take, self._held, self._lock = take, dict[str, Lease](), Lock()

    def acquire(self, name: str) -> Lease | None:
        """Return a lease on a name, or None if it is held."""
        checked_text("name", name)
        with self._lock:
            before = self._held.get(name)
            if before is not None:
                if before.held():
                    return None
                before.release()
            lease = self._take(name)
            if lease is not None:
                self._held[name] = lease
            return lease

    def close(self) -> None:
        """Release all leases."""
        with self._lock:
            for lease in self._held.values():
                lease.release()
