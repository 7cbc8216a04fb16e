"""A store in a SQLite file: one process writes, readers never wait for it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from threading import BoundedSemaphore, Event, Lock, Thread
from time import monotonic, sleep
from typing import Any, TypeVar
from urllib.parse import quote

from duelrank.core.errors import StorageFailure, StoreCorrupt, StoreFull, StoreLocked, StoreUnavailable
from duelrank.storage.base import Lease, NewEvent, Receipt, Usage
from duelrank.storage.sql import (
    MIGRATIONS,
    Migration,
    Rows,
    Session,
    SQLStorage,
    body_checksum,
    check_version,
    checksum,
    counter,
    migrate,
    rows_of_new,
)

T = TypeVar("T")

TYPES = {"whole": "INTEGER", "real": "REAL", "bytes": "BLOB"}
INSERT = {
    "events": """
        INSERT INTO duelrank_events (number, ranker, kind, key, time)
        SELECT * FROM (VALUES {rows}) WHERE column1 NOTNULL ON CONFLICT (ranker, kind, key) DO NOTHING""",
    "bodies": """
        INSERT INTO duelrank_bodies (number, checksum, body)
        SELECT * FROM (VALUES {rows}) WHERE column1 NOTNULL""",
    "attachments": """
        INSERT INTO duelrank_attachments (ranker, number, checksum, body)
        SELECT * FROM (VALUES {rows}) WHERE column1 NOTNULL""",
}
#: A view of each connection that writes. Inserting rows into it appends whole events, in a transaction of one statement; it fails
#: if another process has appended an event in the meantime, or if an event is known.
NEW_EVENTS = (
    """CREATE TEMP VIEW new_events (number, ranker, kind, key, time, checksum, body, attached, attachment)
        AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL""",
    """CREATE TEMP TRIGGER append_event INSTEAD OF INSERT ON new_events BEGIN
        SELECT RAISE(ABORT, 'another number') FROM duelrank_meta WHERE last_number <> NEW.number - 1;
        INSERT INTO duelrank_events VALUES (NEW.number, NEW.ranker, NEW.kind, NEW.key, NEW.time);
        INSERT INTO duelrank_bodies VALUES (NEW.number, NEW.checksum, NEW.body);
        INSERT INTO duelrank_attachments
            SELECT NEW.ranker, NEW.number, NEW.attached, NEW.attachment WHERE NEW.attachment NOTNULL;
        UPDATE duelrank_meta SET last_number = NEW.number; END""",
)
INSERT_NEW = "INSERT INTO new_events SELECT * FROM (VALUES {rows}) WHERE column1 NOTNULL"
MAX_NEW = 256  # events in this statement
KNOWN = """
    WITH given (ranker, kind, key) AS (VALUES {rows}) SELECT ranker, kind, key, number
    FROM given CROSS JOIN duelrank_events USING (ranker, kind, key)"""  # SQLite keeps the order of a cross join
FIND = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events LEFT JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND kind = ? AND key IN ({rows})"""
ATTACHMENTS = "SELECT number, checksum, body FROM duelrank_attachments WHERE ranker = ? AND number IN ({rows})"
REMOVE_NUMBERS = "DELETE FROM duelrank_events WHERE number BETWEEN ? AND ?"
MAX_PARAMETERS = 320  # of one statement

READERS = 8
WAL_BYTES = 32 << 20
#: Seconds between two attempts to enable the write-ahead log, and to begin a transaction while another process writes.
LOCK_PAUSE, WRITE_PAUSE = 0.02, 0.0003
#: Bytes of appended events after which the write-ahead log is copied into the file, in a thread of its own; and pages of the log
#: after which the writer does what that thread has not done yet.
CHECKPOINT_BYTES, CHECKPOINT_PAGES = 1 << 20, 6000
PRAGMAS = (
    "synchronous = FULL",
    "fullfsync = ON",
    f"journal_size_limit = {WAL_BYTES}",
    f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
)
SIZE = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"

# By primary result code; all other errors keep SQLite's own message.
ERRORS: dict[int, tuple[type[StorageFailure], str]] = {
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process has it locked; try again, or stop that process"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another connection has it locked; try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "its disk is full; nothing was written"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "the file is damaged; keep a copy of it and restore a backup"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "this is not a SQLite database, or its beginning is damaged"),
    sqlite3.SQLITE_CANTOPEN: (StorageFailure, "the file cannot be opened; check that its folder exists and is yours"),
    sqlite3.SQLITE_READONLY: (StorageFailure, "the file or its folder cannot be written to; check their permissions"),
}
# Result codes if SQLite cannot write, or cannot create the files next to a store.
UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)


class SQLiteStorage(SQLStorage):
    """A store in one file, for one serving process; other processes may read it, or write for a moment.

    Every transaction is in the write-ahead log and on the disk (``synchronous=FULL``) before it is acknowledged. Readers and
    the writer never wait for each other. Freed space is used again: the file stops growing, but it does not shrink by itself
    (SQLite's ``VACUUM`` shrinks it, while no process serves from it).

    Parameters
    ----------
    path
        Path of the file, which is created if it does not exist; None for a store in memory.
    timeout
        Seconds to wait for another process that has the file locked.
    migrations
        Versions of the schema, for tests.
    read_only
        Whether to write nothing: neither the file nor its folder needs to be writable.
    """

    shared = False

    def __init__(
        self,
        path: str | Path | None,
        timeout: float = 5.0,
        migrations: Sequence[Migration] = MIGRATIONS,
        read_only: bool = False,
    ) -> None:
        self.path, self._timeout = None if path is None else Path(path).absolute(), timeout
        self._name = "the store in memory" if self.path is None else f"the store {self.path}"
        self._wal, self._wal_limit = Path(f"{self.path}-wal"), WAL_BYTES
        self._inode: tuple[int, int] | None = None
        self._mode = "mode=rw"  # also for reading: "mode=ro" would leave its files next to the store
        self._pragmas = (*PRAGMAS, "query_only = ON") if read_only and path is not None else PRAGMAS
        self._newest: int | None = None  # the number of the newest event, as far as this process knows
        writing = (timeout,) if read_only else (0.0, NEW_EVENTS)
        self._writes = _Pool(partial(self._connect, *writing), 1)
        self._reads = self._writes if path is None else _Pool(partial(self._connect, timeout), READERS)
        try:
            if read_only and self.path is not None:
                self._prepare_to_read(self.path, migrations)
            else:
                self._prepare(migrations)
        except BaseException:
            self._writes.close()
            raise
        self._inode = None if self.path is None else _inode(self.path)
        self._checkpoints = _Checkpoints(partial(self._connect, timeout))
        super().__init__()

    def query(self, statement: str, *parameters: Any) -> Rows:
        """Execute one reading statement."""
        with self._translated(), self._reads.borrow() as connection:
            return connection.execute(statement, parameters).fetchall()

    def transact(self, work: Callable[[Session], T]) -> T:
        """Call a function inside a transaction."""
        with self._translated(), self._writes.borrow() as connection:
            self._check_file()
            with self._transaction(connection):
                result = work(Session(connection))
            self._bound_wal(connection)
        return result

    def append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events; return when they are on the disk."""
        receipts = self._append(events)
        if self.path is not None:
            self._checkpoints.count(sum(len(event.body) + len(event.attachment or b"") for event in events))
        return receipts

    def _append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events: with one statement if all are new, which is usual.

        Python switches threads at each statement. A busy event loop would have to wait for each switch, and this thread, too.
        """
        last = self._newest
        if last is None or not 0 < len(events) <= MAX_NEW or not self._insert_all(events, last):
            receipts = super().append(events)
            self._newest = max((receipt.number for receipt in receipts if receipt.new), default=last)
            return receipts
        self._newest = last + len(events)
        return [Receipt(number, True) for number in range(last + 1, self._newest + 1)]

    def _insert_all(self, events: Sequence[NewEvent], last: int) -> bool:
        """Append new events, numbered from ``last`` + 1; return False, and change nothing, if that is not possible."""
        rows = [_row(number, event) for number, event in enumerate(events, last + 1)]
        statement, values = _statement(INSERT_NEW, rows)
        with self._translated(), self._writes.borrow() as connection:
            self._check_file()
            try:
                self._patiently(connection, statement, WRITE_PAUSE, values)
            except sqlite3.IntegrityError:
                return False
            self._bound_wal(connection)
        return True

    def insert_new(self, session: Session, events: Sequence[NewEvent], last: int) -> list[Receipt]:
        """Insert the rows of new events: all at once if all are new, which is usual."""
        receipts = [Receipt(last + place, True) for place in range(1, len(events) + 1)]
        if self.insert_rows(session, "events", rows_of_new(events, receipts)) == len(events):
            return receipts
        session.run(REMOVE_NUMBERS, last + 1, last + len(events))
        return super().insert_new(session, events, last)

    def insert_rows(self, session: Session, table: str, rows: Rows) -> int:
        """Insert rows into a table."""
        return sum(session.run(statement, *values) for statement, values in _statements(INSERT[table], rows))

    def known_numbers(self, session: Session, keys: Rows) -> Rows:
        """Return the keys that are in the log, with their numbers."""
        return [row for statement, values in _statements(KNOWN, keys) for row in session.rows(statement, *values)]

    def find_rows(self, ranker: str, kind: str, keys: Sequence[str]) -> Rows:
        """Return the rows of the events that have one of the keys."""
        found = _statements(FIND, [(key,) for key in keys])
        return [row for statement, values in found for row in self.query(statement, ranker, kind, *values)]

    def attachment_rows(self, ranker: str, numbers: Sequence[int]) -> Rows:
        """Return the rows of attachments."""
        found = _statements(ATTACHMENTS, [(number,) for number in numbers])
        return [row for statement, values in found for row in self.query(statement, ranker, *values)]

    def take_lease(self, name: str) -> Lease | None:
        """Lock an empty file next to the store; the operating system releases the lock at the end of the process."""
        if self.path is None:
            return _MemoryLease()
        file = Path(f"{self.path}.{quote(name, safe='')}.lock")
        _create_private(file)
        with self._translated():
            lock = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                lock.close()
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return None
        return _FileLease(lock, file)

    def usage(self) -> Usage:
        """Return the size of the file and its write-ahead log, and the free space of its disk."""
        if self.path is None:
            return Usage(counter(self.query(SIZE)), None)
        self._check_file()
        return Usage(_size(self.path) + _size(self._wal), shutil.disk_usage(self.path.parent).free)

    def ping(self) -> None:
        """Raise an error if the file is missing, or SQLite does not answer."""
        self._check_file()
        super().ping()

    def close(self) -> None:
        """Finish the appends, release the leases and close the file."""
        super().close()
        self._checkpoints.close()
        self._reads.close()
        self._writes.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate an error of SQLite into a `StorageFailure`."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # Python itself rejects a damaged text
            kind, sentence = ERRORS.get(code & 0xFF, (StorageFailure, f"{error}"))
            if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # the index of the write-ahead log could not grow
                kind, sentence = ERRORS[sqlite3.SQLITE_FULL]
            if code & 0xFF in UNWRITABLE and self.path is not None and _on_read_only_disk(self.path):
                sentence = (
                    "its file system is mounted read-only; mount it for writing, or copy the store to another disk"
                )
            raise kind(f"{self._name}: {sentence}") from error

    def _check_file(self) -> None:
        """Raise an error if the file is no longer at its path: data written to it would be lost with the process."""
        if self._inode is None or self.path is None or (found := _inode(self.path)) == self._inode:
            return
        what = "is gone" if found is None else "was replaced by another file"
        raise StoreUnavailable(
            f"{self._name}: the file {what} while this process uses it, and nothing is written any more; "
            "move the file back to its place, or restart this process to use the file that is there now"
        )

    def _connect(self, timeout: float, prepared: Sequence[str] = ()) -> sqlite3.Connection:
        # Never creates the file: an empty one in place of one that was moved away would hide the loss.
        place = ":memory:" if self.path is None else f"{self.path.as_uri()}?{self._mode}"
        self._check_file()
        with self._translated():
            connection = sqlite3.connect(
                place, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
            )
            try:
                for statement in (*(f"PRAGMA {pragma}" for pragma in self._pragmas), *prepared):
                    self._patiently(connection, statement, LOCK_PAUSE)
            except sqlite3.Error:
                connection.close()
                raise
        return connection

    def _prepare(self, migrations: Sequence[Migration]) -> None:
        """Create or update the tables; a file of another program or of a later version stays unchanged."""
        if self.path is not None:
            _create_private(self.path)
        with self._translated(), self._writes.borrow() as connection:
            with self._transaction(connection):
                migrate(Session(connection), _version(connection, self._name), migrations, TYPES)
            if self._enable_wal(connection) != "wal" and self.path is not None:
                raise StorageFailure(f"{self._name}: this file system cannot hold a live store; use a local disk")

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Begin a transaction, and commit it at the end; after an error, the pool rolls it back.

        SQLite itself would wait up to 100 ms between two attempts, and the other process writes for about a millisecond.
        """
        self._patiently(connection, "BEGIN IMMEDIATE", WRITE_PAUSE)
        yield
        self._patiently(connection, "COMMIT", WRITE_PAUSE)

    def _enable_wal(self, connection: sqlite3.Connection) -> str:
        """Turn on the write-ahead log and return the journal mode; wait for the lock, which SQLite does not do here."""
        return str(self._patiently(connection, "PRAGMA journal_mode = WAL", LOCK_PAUSE).fetchone()[0])

    def _patiently(
        self, connection: sqlite3.Connection, statement: str, pause: float, values: Sequence[Any] = ()
    ) -> sqlite3.Cursor:
        """Execute a statement, again and again while another process has the store locked."""
        deadline = monotonic() + self._timeout
        while True:
            try:
                if not values:
                    return connection.execute(statement)
                # It asks for no row id, for which the interpreter lock would change hands once more.
                return connection.executemany(statement, [values])
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                    raise
                sleep(pause)

    def _prepare_to_read(self, path: Path, migrations: Sequence[Migration]) -> None:
        """Check that the tables exist and have the current version.

        SQLite needs files next to a store: it creates them, or finds those of a service that uses the store. If it can do
        neither, no service uses the store, and the file is complete, unless a killed service has left its write-ahead log.
        """
        try:
            self._check_version(migrations)
        except StorageFailure as error:
            code = getattr(error.__cause__, "sqlite_errorcode", 0)
            if code & 0xFF not in UNWRITABLE or not path.is_file():
                raise
            if _size(self._wal):
                raise StorageFailure(
                    f"{self._name}: its newest events are in {self._wal.name}, and reading that file needs a writable folder; "
                    "copy both files to such a folder"
                ) from error
            self._mode = "immutable=1"
            self._check_version(migrations)

    def _check_version(self, migrations: Sequence[Migration]) -> None:
        with self._translated(), self._writes.borrow() as connection:
            version = _version(connection, self._name)
        check_version(version, len(migrations))
        if version < len(migrations):
            raise StorageFailure(
                f"{self._name}: it has version {version}, and this duelrank reads version {len(migrations)}; 'duelrank serve' "
                "updates it, so read a copy that was served once"
            )

    def _bound_wal(self, connection: sqlite3.Connection) -> None:
        """Empty a write-ahead log that has grown large because some reader was always active."""
        if self.path is None or _size(self._wal) <= self._wal_limit:
            return
        connection.execute("PRAGMA busy_timeout = 200")  # milliseconds that the writer waits for readers to finish
        with suppress(sqlite3.Error):  # the transaction is complete: a full disk must not make it look failed
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA busy_timeout = 0")
        self._wal_limit = max(WAL_BYTES, 2 * _size(self._wal))  # do not wait for a slow reader at every transaction


class _Checkpoints:
    """Copies the write-ahead log into the file in a thread of its own, so that no append waits for it.

    Parameters
    ----------
    connect
        Function that opens a connection to the file.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect, self._due, self._bytes, self._closed = connect, Event(), 0, False
        self._thread: Thread | None = None  # most stores of a process append little, or nothing

    def count(self, size: int) -> None:
        """Count the bytes of events that are appended; called by one thread."""
        self._bytes += size
        if self._bytes > CHECKPOINT_BYTES:
            self._bytes = 0
            self._due.set()
            if self._thread is None:
                self._thread = Thread(target=self._loop, name="duelrank-storage-checkpoints", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        while self._wait():
            with suppress(sqlite3.Error, StorageFailure), closing(self._connect()) as connection:
                while True:  # until it fails, such as on a full disk: the writer finds that out, too
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                    if not self._wait():
                        return

    def _wait(self) -> bool:
        """Wait until there is something to do; return False at the end."""
        self._due.wait()
        self._due.clear()
        return not self._closed


class _Pool:
    """At most ``size`` connections, opened when needed; each is used by one thread at a time."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], size: int) -> None:
        self._connect, self._free = connect, BoundedSemaphore(size)
        self._lock, self._idle, self._closed = Lock(), list[sqlite3.Connection](), False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Use a connection inside a ``with`` statement; a transaction that is still open at its end is rolled back."""
        with self._free:
            connection = self._take()
            try:
                yield connection
            finally:
                if connection.in_transaction:  # SQLite has ended it already after some errors, such as a full disk
                    with suppress(sqlite3.Error):
                        connection.rollback()
                self._give(connection)

    def clear(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close all connections; those in use are closed at the end of their use."""
        self._closed = True
        self.clear()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise StorageFailure("this store was closed; open it again")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


class _FileLease(Lease):
    """A lease that is held as long as a transaction is open on an empty file, and the file is at its path."""

    def __init__(self, lock: sqlite3.Connection, file: Path) -> None:
        self._lock, self._file, self._inode = lock, file, _inode(file)

    def held(self) -> bool:
        try:  # if the file was removed or replaced, another process can lock the new one
            return self._lock.in_transaction and _inode(self._file) == self._inode
        except sqlite3.ProgrammingError:  # closed
            return False

    def release(self) -> None:
        self._lock.close()


class _MemoryLease(Lease):
    """A lease on a store in memory, which no other process can use."""

    _held = True

    def held(self) -> bool:
        return self._held

    def release(self) -> None:
        self._held = False


def _version(connection: sqlite3.Connection, name: str) -> int:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if "duelrank_meta" in tables:
        return counter(connection.execute("SELECT version FROM duelrank_meta").fetchall())
    if tables:
        raise StorageFailure(f"{name}: this SQLite database belongs to another program; nothing was changed")
    return 0


def _row(number: int, event: NewEvent) -> tuple[Any, ...]:
    """Return the row of an event for the view of new events."""
    data = event.attachment
    attached = None if data is None else checksum(data, event.ranker, number)
    head = (number, event.ranker, event.kind, event.key, event.time)
    return *head, body_checksum(event), event.body, attached, data


def _statements(statement: str, rows: Rows) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements that handle many rows each, with their parameters.

    Python switches threads at each statement, and waiting for the next turn takes longer than handling many rows.
    """
    most = 1 << (MAX_PARAMETERS // len(rows[0])).bit_length() - 1 if rows else 1
    for start in range(0, len(rows), most):
        yield _statement(statement, rows[start : start + most])


def _statement(statement: str, rows: Rows) -> tuple[str, list[Any]]:
    """Return a statement that handles rows, and its parameters.

    Its number of rows is a power of two, so that few different statements are prepared; rows of NULL have no effect.
    """
    count, width = 1 << (len(rows) - 1).bit_length(), len(rows[0])
    return _with_rows(statement, count, width), [*chain.from_iterable(rows), *[None] * (count - len(rows)) * width]


@cache
def _with_rows(statement: str, count: int, width: int) -> str:
    row = "?" if width == 1 else f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, if there is none; SQLite gives its other files the same mode."""
    with suppress(OSError):  # it exists (and must not be opened: closing it would end SQLite's locks), or has no folder
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _on_read_only_disk(path: Path) -> bool:
    """Whether the file system of a path is mounted read-only."""
    try:
        return bool(os.statvfs(path if path.exists() else path.parent).f_flag & os.ST_RDONLY)
    except (AttributeError, OSError):  # Windows has no statvfs; the folder does not exist
        return False


def _size(path: Path) -> int:
    """Return the size of a file, 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _inode(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, None if it does not exist or cannot be reached."""
    try:
        found = os.stat(path)  # in half the time of Path.stat; called once per transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
