"""A temporary database in which events and features wait for their query: the files of a log are in any order, and of any size."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from duelrank.errors import StorageFailure, StoreFull
from duelrank.ubi.events import Deed
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

    def __init__(self, database: sqlite3.Connection, folder: Path) -> None:
        self._database, self._folder = database, folder
        with self._working():
            database.executescript(SCHEMA)

    def add_events(self, events: Iterable[tuple[str, Deed]]) -> None:
        """Add what events say, by the id of their query."""
        self._add("INSERT INTO events VALUES (?, ?, ?, ?, ?)", ((_key(id), *deed) for id, deed in events))

    def add_features(self, rows: Iterable[Row]) -> None:
        """Add features of documents."""
        self._add("INSERT INTO features VALUES (?, ?, ?)", ((_key(row.query_id), *row[1:]) for row in rows))

    def _add(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with self._working():
            self._database.execute("BEGIN")
            self._database.executemany(statement, rows)
            self._database.execute("COMMIT")

    def finish(self) -> None:
        """Make everything that was added easy to find."""
        with self._working():
            self._database.executescript(INDEXES)

    def deeds(self, query_id: str) -> list[Deed]:
        """Return what the events of a query say, in the order of their files."""
        statement = "SELECT action, document, depth, looking FROM events WHERE query = ? ORDER BY rowid"
        with self._working():
            return [Deed(*row) for row in self._database.execute(statement, (_key(query_id),))]

    def features(self, query_id: str) -> dict[str, bytes]:
        """Return the features of the documents of a query; what was logged last counts."""
        statement = "SELECT document, features FROM features WHERE query = ? ORDER BY rowid"
        with self._working():
            return dict(self._database.execute(statement, (_key(query_id),)))

    @contextmanager
    def _working(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "full" in str(error):
                raise StoreFull(
                    f"there is no space left in {self._folder}, where the log is sorted; name another folder with TMPDIR"
                ) from None
            raise StorageFailure(f"the log could not be sorted in {self._folder}: {error}") from error


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Open a workspace in the folder for temporary files, which TMPDIR names; it is removed at the end."""
    with (
        TemporaryDirectory(prefix="duelrank-") as folder,
        closing(sqlite3.connect(Path(folder) / "log.db", isolation_level=None)) as database,
    ):
        yield Workspace(database, Path(folder).parent)


def _key(query_id: str) -> bytes:
    """Return the id of a query in 16 bytes: it is in every row."""
    return blake2b(query_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
