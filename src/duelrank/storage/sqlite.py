"""A store in one SQLite file: one process writes, readers never wait for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from duelrank.errors import StorageFailure, StoreCorrupt, StoreFull, StoreLocked
from duelrank.storage import statements
from duelrank.storage.base import Lease
from duelrank.storage.pool import Pool
from duelrank.storage.schema import MIGRATIONS, Migration, Session, migrate
from duelrank.storage.sql import SQLStorage, checksum, counter
from duelrank.storage.values import NewEvent, Receipt

__all__ = ["SQLiteStorage"]

T = TypeVar("T")

TYPES = {"whole": "INTEGER", "real": "REAL", "bytes": "BLOB"}
INSERT = """
    INSERT INTO duelrank_events (number, ranker, kind, key, time) VALUES {rows}
    ON CONFLICT (ranker, kind, key) DO NOTHING"""
INSERT_BODIES = "INSERT INTO duelrank_bodies (number, checksum, body) VALUES {rows}"
TAKE_BACK = "DELETE FROM duelrank_events WHERE number BETWEEN ? AND ?"
MOST_ROWS = 64
READERS = 8
WAL_BYTES = 32 << 20

# By the primary result code; what is said of the others is SQLite's own sentence.
ERRORS: dict[int, tuple[type[StorageFailure], str]] = {
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process has it locked; try again, or stop that process"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another connection has it locked; try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "there is no room left on its disk; nothing was written"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "the file is damaged; keep a copy of it and restore a backup"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "this is no SQLite database, or its beginning is damaged"),
    sqlite3.SQLITE_CANTOPEN: (StorageFailure, "the file cannot be opened; check that its folder exists and is yours"),
    sqlite3.SQLITE_READONLY: (StorageFailure, "the file or its folder cannot be written to; check their permissions"),
}


class SQLiteStorage(SQLStorage):
    """A store in one file, for one serving process; other processes may read and write it for a moment.

    Every transaction is in the write-ahead log and on the disk (``synchronous=FULL``) before its callers go on. Reading
    never waits for writing, nor the other way round. Room that pruning makes is used again by what comes next: the file
    stops growing, and does not shrink by itself (SQLite's ``VACUUM`` does that, while nobody serves).

    Parameters
    ----------
    path
        The file, which is made where there is none; None for a store in memory, which is gone with this object.
    timeout
        Seconds to wait for another process that has the file locked.
    migrations
        The versions of the schema; for tests.
    """

    def __init__(
        self, path: str | Path | None, timeout: float = 5.0, migrations: Sequence[Migration] = MIGRATIONS
    ) -> None:
        self.path, self.timeout = None if path is None else Path(path).absolute(), timeout
        self._wal, self._wal_most = None if self.path is None else Path(f"{self.path}-wal"), WAL_BYTES
        self._writes = self._pool(1)
        self._reads = self._writes if path is None else self._pool(READERS)
        try:
            self._prepare(migrations)
        except BaseException:
            self._writes.close()
            raise
        super().__init__()

    def _pool(self, size: int) -> Pool[sqlite3.Connection]:
        return Pool(self._connect, sqlite3.Connection.close, _usable, size)

    def _connect(self) -> sqlite3.Connection:
        place = ":memory:" if self.path is None else self.path
        with self._translated():
            connection = sqlite3.connect(place, self.timeout, isolation_level=None, check_same_thread=False)
            try:
                for pragma in ("synchronous = FULL", "fullfsync = ON", f"journal_size_limit = {WAL_BYTES}"):
                    connection.execute(f"PRAGMA {pragma}")
            except sqlite3.Error:
                connection.close()
                raise
        return connection

    def _prepare(self, migrations: Sequence[Migration]) -> None:
        """Make the tables or bring them up to date; a file that is not ours or too new stays as it is."""
        with self._translated(), self._writes.borrow() as connection:
            with _transaction(connection):
                migrate(_SQLiteSession(connection), _version(connection, self._name), migrations, TYPES)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if self.path is not None and mode != "wal":
                raise StorageFailure(f"{self._name}: this file system cannot hold a live store; use a local disk")

    @property
    def _name(self) -> str:
        return "the store in memory" if self.path is None else f"the store {self.path}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn an error of SQLite into one of ours."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # Python itself refuses a damaged text
            kind, sentence = ERRORS.get(code & 0xFF, (StorageFailure, f"{error}"))
            if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # the index of the write-ahead log could not grow
                kind, sentence = ERRORS[sqlite3.SQLITE_FULL]
            raise kind(f"{self._name}: {sentence}") from error

    def _query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._translated(), self._reads.borrow() as connection:
            return connection.execute(statement, parameters).fetchall()

    def _transact(self, work: Callable[[Session], T]) -> T:
        with self._translated(), self._writes.borrow() as connection:
            with _transaction(connection):
                result = work(_SQLiteSession(connection))
            self._bound_wal(connection)
        return result

    def _bound_wal(self, connection: sqlite3.Connection) -> None:
        """Empty a write-ahead log that has become large, which readers who follow each other closely can bring about."""
        if self._wal is None or _size(self._wal) <= self._wal_most:
            return
        connection.execute("PRAGMA busy_timeout = 200")  # so long a reader may take to finish, while the writer waits
        with suppress(sqlite3.Error):  # what was to be written is written: a full disk must not make that look failed
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * self.timeout)}")
        self._wal_most = max(WAL_BYTES, 2 * _size(self._wal))  # one that takes longer is not waited for all the time

    def _insert(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        last = counter(session.rows(statements.LAST_NUMBER))
        keys = [(event.ranker, event.kind, event.key, event.time) for event in events]
        numbers = range(last + 1, last + 1 + len(keys))
        if _insert_rows(session, INSERT, [(number, *key) for number, key in zip(numbers, keys, strict=True)]) == len(
            keys
        ):
            receipts = [Receipt(number, True) for number in numbers]
        else:  # some are known
            session.run(TAKE_BACK, numbers[0], numbers[-1])
            receipts = _insert_each(session, last, keys)
        bodies = [
            (receipt.number, checksum(event.body, *key), event.body)
            for receipt, key, event in zip(receipts, keys, events, strict=True)
            if receipt.new
        ]
        if bodies:
            _insert_rows(session, INSERT_BODIES, bodies)
            session.run(statements.SET_LAST_NUMBER, bodies[-1][0])
        return receipts

    def _lead(self, name: str) -> Lease | None:
        """Take a lock on an empty file beside the store."""
        if self.path is None:
            return _MemoryLease()
        with self._translated():
            lock = sqlite3.connect(
                f"{self.path}.{quote(name, safe='')}.lock", 0, isolation_level=None, check_same_thread=False
            )
            try:
                lock.execute("BEGIN EXCLUSIVE")  # the operating system ends it with the process
            except sqlite3.OperationalError as error:
                lock.close()
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return None
        return _FileLease(lock)

    def close(self) -> None:
        """Finish the appends, give up what is led, and close the file."""
        super().close()
        self._reads.close()
        self._writes.close()


class _SQLiteSession(Session):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: Any) -> int:
        return self._connection.execute(statement, parameters).rowcount

    def run_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(statement, parameters)


def _insert_each(session: Session, last: int, keys: Sequence[tuple[Any, ...]]) -> list[Receipt]:
    """Insert what is new, one by one, behind the last number, and find what is known."""
    receipts = []
    for key in keys:
        new = _insert_rows(session, INSERT, [(last + 1, *key)]) == 1
        last += new
        receipts.append(Receipt(last if new else session.rows(statements.KNOWN, *key[:3])[0][0], new))
    return receipts


def _insert_rows(session: Session, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows and return how many were new.

    Many go with one statement, because Python lets other threads go first at each, and to get one's turn again takes longer
    than a row; in powers of two, so that few statements have to be prepared.
    """
    start = changed = 0
    while start < len(rows):
        some = rows[start : start + min(MOST_ROWS, 1 << (len(rows) - start).bit_length() - 1)]
        changed += session.run(_with_rows(statement, len(some), len(some[0])), *chain.from_iterable(some))
        start += len(some)
    return changed


@cache
def _with_rows(statement: str, count: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")  # what goes wrong on the way is rolled back by `_usable`


def _usable(connection: sqlite3.Connection) -> bool:
    """Leave a transaction that has failed; SQLite may have left it already, such as on a full disk."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.rollback()
    return True


def _version(connection: sqlite3.Connection, name: str) -> int:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if "duelrank_meta" in tables:
        return counter(connection.execute("SELECT version FROM duelrank_meta").fetchall())
    if tables:
        raise StorageFailure(f"{name}: this SQLite database belongs to another program; nothing was changed")
    return 0


class _FileLease(Lease):
    """Holds while a transaction is open on a file that nothing is written to."""

    def __init__(self, lock: sqlite3.Connection) -> None:
        self._lock = lock

    def held(self) -> bool:
        try:
            return self._lock.in_transaction
        except sqlite3.ProgrammingError:  # closed
            return False

    def release(self) -> None:
        self._lock.close()


class _MemoryLease(Lease):
    """Holds until it is released: nobody else can have the store."""

    def __init__(self) -> None:
        self._held = True

    def held(self) -> bool:
        return self._held

    def release(self) -> None:
        self._held = False
