"""Defines the tables, and how an older store becomes a newer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from duelrank.core.errors import StoreTooNew
from duelrank.storage.sql.database import Session

__all__ = ["MIGRATIONS", "TABLES", "Migration", "migrate", "too_new"]

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
    (
        # Large data of an event that is dropped before the event is.
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
        # Heartbeats; holder is whatever the database knows its client by.
        "CREATE TABLE duelrank_leases (name TEXT PRIMARY KEY, holder {whole} NOT NULL, beat {real} NOT NULL)",
    ),
)

#: All tables of the newest version.
TABLES = tuple(
    f"duelrank_{name}" for name in ("meta", "events", "bodies", "attachments", "snapshots", "pruned", "keys", "leases")
)


def too_new(version: int, newest: int) -> str:
    """Return why a store cannot be read."""
    return (
        f"this store has version {version}, and this duelrank knows versions up to {newest}: it was written by a later duelrank, "
        "which can read it"
    )


def migrate(session: Session, version: int, migrations: Sequence[Migration], types: Mapping[str, str]) -> None:
    """Bring a store of a version (0: an empty one) to the newest, inside of one transaction of the caller."""
    if version > len(migrations):
        raise StoreTooNew(too_new(version, len(migrations)))
    for migration in migrations[version:]:
        for statement in migration:
            session.run(statement.format(**types))
    if version < len(migrations):
        session.run("UPDATE duelrank_meta SET version = ?", len(migrations))
