"""A temporary database in which events and features wait for their query: the files of a log are in any order, and of any size."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b

from duelrank.errors import StorageFailure, StoreFull
from duelrank.ubi.events import UserAction
from duelrank.ubi.features import Row

__all__ = ["Workspace", "workspace"]

# The file is worth nothing after a crash, so nothing is done to save it. The cache has 64 MiB; what is larger is sorted in files.
SCHEMA = """
    PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA temp_store = FILE; PRAGMA cache_size = -65536;
    CREATE TABLE events (query BLOB, action TEXT, document TEXT, depth INTEGER, looking INTEGER);
    CREATE TABLE features (query BLOB, document TEXT, features BLOB);
"""
# Made when all rows are there, by sorting: to keep an index of random keys up to date is much slower.
INDEXES = "CREATE INDEX event ON events (query); CREATE INDEX feature ON features (query);"


class Workspace:
    """Events and features by the query that they belong to."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        with _working():
            database.executescript(SCHEMA)

    def add_events(self, events: Iterable[tuple[str, UserAction]]) -> None:
        """Add what events say, by the id of their query."""
        self._add("INSERT INTO events VALUES (?, ?, ?, ?, ?)", ((_key(id), *deed) for id, deed in events))

    def add_features(self, rows: Iterable[Row]) -> None:
        """Add features of documents."""
        self._add("INSERT INTO features VALUES (?, ?, ?)", ((_key(row.query_id), *row[1:]) for row in rows))

    def _add(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with _working():
            self._database.execute("BEGIN")
            self._database.executemany(statement, rows)
            self._database.execute("COMMIT")

    def finish(self) -> None:
        """Make everything that was added easy to find."""
        with _working():
            self._database.executescript(INDEXES)

    def deeds(self, query_id: str) -> list[UserAction]:
        """Return what the events of a query say, in the order of their files."""
        statement = "SELECT action, document, depth, looking FROM events WHERE query = ? ORDER BY rowid"
        with _working():
            return [UserAction(*row) for row in self._database.execute(statement, (_key(query_id),))]

    def features(self, query_id: str) -> dict[str, bytes]:
        """Return the features of the documents of a query; what was logged last counts."""
        statement = "SELECT document, features FROM features WHERE query = ? ORDER BY rowid"
        with _working():
            return dict(self._database.execute(statement, (_key(query_id),)))


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Open a workspace in a file without a name, which is gone when the process ends, however it ends."""
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        yield Workspace(database)


@contextmanager
def _working() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if "full" in str(error):
            raise StoreFull(
                "the disk is full on which the log is sorted; name a folder on another one with TMPDIR"
            ) from None
        raise StorageFailure(f"the log could not be sorted: {error}") from error


def _key(query_id: str) -> bytes:
    """Return the id of a query in 16 bytes: it is in every row."""
    return blake2b(query_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
