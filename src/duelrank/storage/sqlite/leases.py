"""Leases on a SQLite store: locks on files beside it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from duelrank.storage.base import Lease
from duelrank.storage.sql.leases import HeldLeases
from duelrank.storage.sqlite.file import create_private, inode

if TYPE_CHECKING:
    from duelrank.storage.sqlite.database import SQLiteDatabase

__all__ = ["SQLiteLeases"]


class SQLiteLeases(HeldLeases):
    """Takes a lock on an empty file; the operating system ends it with the process."""

    def __init__(self, database: SQLiteDatabase) -> None:
        super().__init__()
        self._database = database

    def _take(self, name: str) -> Lease | None:
        path = self._database.path
        if path is None:
            return _MemoryLease()
        file = Path(f"{path}.{quote(name, safe='')}.lock")
        create_private(file)
        with self._database.translated():
            lock = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                lock.close()
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return None
        return _FileLease(lock, file)


class _FileLease(Lease):
    """Held while a transaction is open on a file that nothing is written to, and the file is at its path."""

    def __init__(self, lock: sqlite3.Connection, file: Path) -> None:
        self._lock, self._file, self._inode = lock, file, inode(file)

    def renew(self) -> bool:
        return self.held()

    def held(self) -> bool:
        try:
            return (
                self._lock.in_transaction and inode(self._file) == self._inode
            )  # else another process can lock it too
        except sqlite3.ProgrammingError:  # closed
            return False

    def release(self) -> None:
        self._lock.close()


class _MemoryLease(Lease):
    """Held until it is released: nobody else can have the store."""

    def __init__(self) -> None:
        self._held = True

    def renew(self) -> bool:
        return self._held

    def held(self) -> bool:
        return self._held

    def release(self) -> None:
        self._held = False
