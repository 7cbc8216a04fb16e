"""Defines how a database is asked and written to; SQLite and PostgreSQL each have their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from duelrank.core.errors import StoreCorrupt
from duelrank.storage.values import NewEvent, Receipt, Usage
from duelrank.storage.writer import GroupWriter

__all__ = ["LAST_NUMBER", "SET_LAST_NUMBER", "Database", "Session", "counter"]

T = TypeVar("T")

LAST_NUMBER = "SELECT last_number FROM duelrank_meta"
SET_LAST_NUMBER = "UPDATE duelrank_meta SET last_number = ?"


class Session(ABC):
    """A connection inside of a transaction; statements have a ``?`` for each parameter."""

    @abstractmethod
    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    @abstractmethod
    def run(self, statement: str, *parameters: Any) -> int:
        """Run a statement and return how many rows it changed."""

    @abstractmethod
    def run_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each sequence of parameters."""


class Database(ABC):
    """Connections to a database with our tables in it; one thread writes, any thread reads.

    A subclass connects and brings the tables up to date before it calls this constructor.
    """

    def __init__(self) -> None:
        self._writer = GroupWriter(lambda events: self.transact(lambda session: self.insert(session, events)))
        self.submit = self._writer.submit

    @abstractmethod
    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one reading statement, in any thread."""

    @abstractmethod
    def transact(self, work: Callable[[Session], T]) -> T:
        """Run a function inside of a transaction, in the writer's thread; return when it is on the disk."""

    @abstractmethod
    def insert(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events inside of a transaction."""

    @abstractmethod
    def find(self, ranker: str, kind: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of events that have one of the keys, with or without a body."""

    @abstractmethod
    def usage(self) -> Usage:
        """Return the size of the database, and the free space on its disk where that is known."""

    def write(self, work: Callable[[Session], T]) -> T:
        """Run a function inside of a transaction, and wait until it is on the disk; in any thread."""
        return self._writer.call(lambda: self.transact(work))

    def ping(self) -> None:
        """Raise where the database does not answer."""
        counter(self.query(LAST_NUMBER))

    def close(self) -> None:
        """Finish the appends; a subclass then closes its connections."""
        self._writer.close()


def counter(rows: list[tuple[Any, ...]]) -> int:
    """Return the one number that a statement gave, or raise where damage has left none."""
    if len(rows) == 1 and isinstance(rows[0][0], int):
        return rows[0][0]
    raise StoreCorrupt("the store's own counters are damaged; restore it from a backup")
