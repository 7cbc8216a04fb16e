"""Connections to a SQLite file, or to a database in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from duelrank.core.errors import StorageFailure, StoreCorrupt, StoreFull, StoreLocked, StoreTooNew
from duelrank.storage.sql.database import Database, Session, counter
from duelrank.storage.sql.schema import Migration, migrate, too_new
from duelrank.storage.sqlite.events import finding, insert
from duelrank.storage.sqlite.file import StoreFile, on_read_only_disk, size
from duelrank.storage.sqlite.pool import Pool
from duelrank.storage.values import NewEvent, Receipt, Usage

__all__ = ["SQLiteDatabase"]

T = TypeVar("T")

TYPES = {"whole": "INTEGER", "real": "REAL", "bytes": "BLOB"}
READERS = 8
WAL_BYTES = 32 << 20
LOCK_PAUSE = 0.02  # seconds
PRAGMAS = ("synchronous = FULL", "fullfsync = ON", f"journal_size_limit = {WAL_BYTES}")
SIZE = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"

# By the primary result code; what is said of the others is SQLite's own sentence.
ERRORS: dict[int, tuple[type[StorageFailure], str]] = {
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process has it locked; try again, or stop that process"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another connection has it locked; try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "there is no room left on its disk; nothing was written"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, "the file is damaged; keep a copy of it and restore a backup"),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "this is not a SQLite database, or its beginning is damaged"),
    sqlite3.SQLITE_CANTOPEN: (StorageFailure, "the file cannot be opened; check that its folder exists and is yours"),
    sqlite3.SQLITE_READONLY: (StorageFailure, "the file or its folder cannot be written to; check their permissions"),
}
# What SQLite says where it cannot write, or cannot make the files beside a store.
UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)


class SQLiteDatabase(Database):
    """One connection that writes and a few that read; a database in memory has one for both."""

    def __init__(
        self, path: str | Path | None, timeout: float, migrations: Sequence[Migration], read_only: bool = False
    ) -> None:
        self.path, self.timeout = None if path is None else Path(path).absolute(), timeout
        self._name = "the store in memory" if self.path is None else f"the store {self.path}"
        self._file = None if self.path is None else StoreFile(self.path, not read_only)
        self._wal_most, self._mode = WAL_BYTES, "mode=rw"  # also to read: "ro" would leave its files beside the store
        self._pragmas = (*PRAGMAS, "query_only = ON") if read_only and path is not None else PRAGMAS
        self._writes = self._pool(1)
        self._reads = self._writes if path is None else self._pool(READERS)
        try:
            if read_only and self._file is not None:
                self._prepare_to_read(self._file, migrations)
            else:
                self._prepare(migrations)
        except BaseException:
            self._writes.close()
            raise
        super().__init__()

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one reading statement."""
        with self.translated(), self._reads.borrow() as connection:
            return connection.execute(statement, parameters).fetchall()

    def transact(self, work: Callable[[Session], T]) -> T:
        """Run a function inside of a transaction."""
        with self.translated(), self._writes.borrow() as connection:
            self._check_file()
            with _transaction(connection):
                result = work(_SQLiteSession(connection))
            self._bound_wal(connection)
        return result

    def insert(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events inside of a transaction."""
        return insert(session, events)

    def find(self, ranker: str, kind: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of events that have one of the keys."""
        return [row for statement, some in finding(keys) for row in self.query(statement, ranker, kind, *some)]

    def usage(self) -> Usage:
        """Return the size of the file and its write-ahead log, and the free space of its disk."""
        if self._file is None:
            return Usage(counter(self.query(SIZE)), None)
        with self.translated():
            return self._file.usage()

    def ping(self) -> None:
        """Raise where the file is gone, or does not answer."""
        self._check_file()
        super().ping()

    def close(self) -> None:
        """Finish the appends and close the file."""
        super().close()
        self._reads.close()
        self._writes.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn an error of SQLite into one of ours."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # Python itself refuses a damaged text
            kind, sentence = ERRORS.get(code & 0xFF, (StorageFailure, f"{error}"))
            if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # the index of the write-ahead log could not grow
                kind, sentence = ERRORS[sqlite3.SQLITE_FULL]
            if code & 0xFF in UNWRITABLE and self.path is not None and on_read_only_disk(self.path):
                sentence = (
                    "its file system is mounted read-only; mount it for writing, or copy the store to another disk"
                )
            raise kind(f"{self._name}: {sentence}") from error

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    def _pool(self, size: int) -> Pool[sqlite3.Connection]:
        return Pool(self._connect, sqlite3.Connection.close, _usable, size)

    def _connect(self) -> sqlite3.Connection:
        # Never makes a file, other than `StoreFile` does: an empty one in place of one that is gone would hide that.
        place = ":memory:" if self.path is None else f"{self.path.as_uri()}?{self._mode}"
        self._check_file()
        with self.translated():
            connection = sqlite3.connect(
                place, timeout=self.timeout, isolation_level=None, check_same_thread=False, uri=True
            )
            try:
                for pragma in self._pragmas:
                    connection.execute(f"PRAGMA {pragma}")
            except sqlite3.Error:
                connection.close()
                raise
        return connection

    def _prepare(self, migrations: Sequence[Migration]) -> None:
        """Make the tables or bring them up to date; a file that is not ours or too new stays as it is."""
        with self.translated(), self._writes.borrow() as connection:
            with _transaction(connection):
                migrate(_SQLiteSession(connection), _version(connection, self._name), migrations, TYPES)
            mode = self._write_ahead(connection)
            if self._file is not None and mode != "wal":
                raise StorageFailure(f"{self._name}: this file system cannot hold a live store; use a local disk")
            if self._file is not None:
                self._file.remember()

    def _write_ahead(self, connection: sqlite3.Connection) -> str:
        """Turn the write-ahead log on and return the journal mode; SQLite itself does not wait for the lock that this takes."""
        deadline = monotonic() + self.timeout
        while True:
            try:
                return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                    raise
                sleep(LOCK_PAUSE)

    def _prepare_to_read(self, file: StoreFile, migrations: Sequence[Migration]) -> None:
        """See that the tables are there, and of this version.

        SQLite wants to make files beside a store, or to find those of a service that uses it. Where it can do neither, nobody uses
        the store, and the file is all there is, unless a service was killed and has left its write-ahead log.
        """
        try:
            self._check_version(migrations)
        except StorageFailure as error:
            code = getattr(error.__cause__, "sqlite_errorcode", 0)
            if code & 0xFF not in UNWRITABLE or not file.path.is_file():
                raise
            if size(file.wal):
                raise StorageFailure(
                    f"{self._name}: its newest events are in {file.wal.name}, and to read that file takes a folder that can be "
                    "written to; copy both files to such a folder"
                ) from error
            self._mode = "immutable=1"
            self._check_version(migrations)
        file.remember()

    def _check_version(self, migrations: Sequence[Migration]) -> None:
        with self.translated(), self._writes.borrow() as connection:
            version = _version(connection, self._name)
        if version > len(migrations):
            raise StoreTooNew(too_new(version, len(migrations)))
        if version < len(migrations):
            raise StorageFailure(
                f"{self._name}: it has version {version}, and this duelrank reads version {len(migrations)}; 'duelrank serve' "
                "brings it up to date, so look at a copy that was served once"
            )

    def _bound_wal(self, connection: sqlite3.Connection) -> None:
        """Empty a write-ahead log that has become large, which readers who follow each other closely can bring about."""
        if self._file is None or size(self._file.wal) <= self._wal_most:
            return
        connection.execute("PRAGMA busy_timeout = 200")  # so long a reader may take to finish, while the writer waits
        with suppress(sqlite3.Error):  # what was to be written is written: a full disk must not make that look failed
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * self.timeout)}")
        self._wal_most = max(
            WAL_BYTES, 2 * size(self._file.wal)
        )  # one that takes longer is not waited for all the time


class _SQLiteSession(Session):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: Any) -> int:
        return self._connection.execute(statement, parameters).rowcount

    def run_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        self._connection.executemany(statement, parameters)


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
