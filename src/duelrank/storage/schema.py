"""The tables, and how an older store becomes a newer one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from duelrank.errors import StoreTooNew

__all__ = ["MIGRATIONS", "Migration", "Session", "migrate"]

Migration: TypeAlias = tuple[str, ...]  # statements; {whole}, {real} and {bytes} are the dialect's names of types

#: Number n makes a store of version n out of one of version n - 1. Never change one that was released: add another.
MIGRATIONS: tuple[Migration, ...] = (
    (
        # One row. Whoever appends changes it first, and thereby holds off all others until the commit: that is why
        # numbers become visible in their order.
        "CREATE TABLE duelrank_meta (version {whole} NOT NULL, last_number {whole} NOT NULL)",
        "INSERT INTO duelrank_meta VALUES (0, 0)",
        # Bodies are apart from the rest of an event: a pruned one loses its body, and its key stays known for a while.
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
)


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


def migrate(session: Session, version: int, migrations: Sequence[Migration], types: Mapping[str, str]) -> None:
    """Bring a store of a version (0: an empty one) to the newest, inside of one transaction of the caller."""
    if version > len(migrations):
        raise StoreTooNew(
            f"this store has version {version}, and this duelrank knows versions up to {len(migrations)}: "
            "it was written by a later duelrank, which can read it"
        )
    for migration in migrations[version:]:
        for statement in migration:
            session.run(statement.format(**types))
    if version < len(migrations):
        session.run("UPDATE duelrank_meta SET version = ?", len(migrations))
