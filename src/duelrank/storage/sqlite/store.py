"""A store in one SQLite file: one process writes, readers never wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from duelrank.storage.sql.schema import MIGRATIONS, Migration
from duelrank.storage.sql.store import SQLStorage
from duelrank.storage.sqlite.database import SQLiteDatabase
from duelrank.storage.sqlite.leases import SQLiteLeases

__all__ = ["SQLiteStorage"]


class SQLiteStorage(SQLStorage):
    """A store in one file, for one serving process; other processes may read and write it for a moment.

    Every transaction is in the write-ahead log and on the disk (``synchronous=FULL``) before its callers go on. Reading
    never waits for writing, nor the other way round. Space that was freed is used again by what comes next: the file stops
    growing, and does not shrink by itself (SQLite's ``VACUUM`` does that, while nobody serves).

    Parameters
    ----------
    path
        The file, which is made where there is none; None for a store in memory, which is gone with this object.
    timeout
        Seconds to wait for another process that has the file locked.
    migrations
        The versions of the schema; for tests.
    read_only
        Write nothing: neither the file nor its folder needs to be writable.
    """

    shared = False

    def __init__(
        self,
        path: str | Path | None,
        timeout: float = 5.0,
        migrations: Sequence[Migration] = MIGRATIONS,
        read_only: bool = False,
    ) -> None:
        database = SQLiteDatabase(path, timeout, migrations, read_only)
        super().__init__(database, SQLiteLeases(database))
