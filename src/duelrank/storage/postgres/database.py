"""Pools of connections to PostgreSQL, and how many events are inserted and found there at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from duelrank.storage.postgres.server import Connection, Server, close
from duelrank.storage.sql.checksums import checksum
from duelrank.storage.sql.database import LAST_NUMBER, SET_LAST_NUMBER, Database, Session, counter
from duelrank.storage.sql.schema import TABLES, Migration, migrate
from duelrank.storage.values import NewEvent, Receipt, Usage

__all__ = ["PostgresDatabase"]

T = TypeVar("T")
Pool: TypeAlias = "ConnectionPool[Connection]"

TYPES = {"whole": "BIGINT", "real": "DOUBLE PRECISION", "bytes": "BYTEA"}
INSERT = """
    INSERT INTO duelrank_events (number, ranker, kind, key, time)
    SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::double precision[])"""
INSERT_BODIES = """
    INSERT INTO duelrank_bodies (number, checksum, body) SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bytea[])"""
INSERT_ATTACHMENTS = """
    INSERT INTO duelrank_attachments (ranker, number, checksum, body)
    SELECT * FROM unnest(?::text[], ?::bigint[], ?::bigint[], ?::bytea[])"""
KNOWN = """
    SELECT ranker, kind, key, number FROM duelrank_events
    JOIN unnest(?::text[], ?::text[], ?::text[]) AS given (ranker, kind, key) USING (ranker, kind, key)"""
FIND = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events LEFT JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND kind = ? AND key = ANY(?::text[])"""
LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'duelrank', current_schema()), 0))"
SIZE = "SELECT sum(pg_total_relation_size(to_regclass(name)))::bigint FROM unnest(?::text[]) AS given (name)"
READERS = 4
# Seconds to wait for a connection, such as while the server restarts.
PATIENCE = 3.0

# What the pool warns of at each attempt, we raise with the reason.
if (_logger := logging.getLogger("psycopg.pool")).level == logging.NOTSET:
    _logger.setLevel(logging.ERROR)


class PostgresDatabase(Database):
    """One connection that writes and a few that read; lost ones are made again."""

    def __init__(self, server: Server, migrations: Sequence[Migration]) -> None:
        self._server = server
        connection = server.connect()  # not of a pool, which could not say why there is none
        try:
            with server.translated(), connection.transaction():
                _prepare(_PostgresSession(connection), migrations)
        finally:
            close(connection)
        self._writes, self._reads = self._pool(1), self._pool(READERS)
        super().__init__()

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one reading statement."""

        def ask() -> list[tuple[Any, ...]]:
            with self._borrowed(self._reads) as connection:
                return connection.execute(_native(statement), parameters).fetchall()

        with self._server.translated():
            try:
                return ask()
            except psycopg.OperationalError as error:
                if error.sqlstate is not None and not error.sqlstate.startswith("57P"):
                    raise
                self._reads.check()  # the server has restarted: the others are dead too
                return ask()

    def transact(self, work: Callable[[Session], T]) -> T:
        """Run a function inside of a transaction."""
        with self._server.translated():
            try:
                return self._attempt(work)
            except _NothingSent:
                return self._attempt(work)

    def insert(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append events inside of a transaction."""
        last = counter(session.rows(f"{LAST_NUMBER} FOR UPDATE"))
        numbers = _known(session, events)
        receipts: list[Receipt] = []
        new: list[tuple[int, NewEvent]] = []
        for event in events:
            place = (event.ranker, event.kind, event.key)
            if event.follows and not receipts[-1].new:
                receipts.append(Receipt(0, False))
            elif place in numbers:
                receipts.append(Receipt(numbers[place], False))
            else:
                numbers[place] = last = last + 1
                new.append((last, event))
                receipts.append(Receipt(last, True))
        if new:
            _insert_new(session, new)
        return receipts

    def find(self, ranker: str, kind: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of events that have one of the keys."""
        return self.query(FIND, ranker, kind, list(keys)) if keys else []

    def usage(self) -> Usage:
        """Return the size of our tables; the server does not tell the free space of its disk."""
        return Usage(counter(self.query(SIZE, list(TABLES))), None)

    def close(self) -> None:
        """Finish the appends and close the connections."""
        super().close()
        self._reads.close()
        self._writes.close()

    def _pool(self, size: int) -> Pool:
        return ConnectionPool(
            self._server.conninfo,
            kwargs={"autocommit": True},
            configure=self._server.configure,
            min_size=1,
            max_size=size,
            timeout=PATIENCE,
            reconnect_timeout=PATIENCE,  # then the next caller starts anew, without ever longer pauses in between
            num_workers=1,
            open=True,
        )

    @contextmanager
    def _borrowed(self, pool: Pool) -> Iterator[Connection]:
        """Have a connection for the length of a block."""
        connection = None
        while connection is None:
            try:
                connection = pool.getconn()
            except PoolTimeout:
                close(self._server.connect())  # raises why there is none; else all are in use, and one will be free
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def _attempt(self, work: Callable[[Session], T]) -> T:
        begun = False
        with self._borrowed(self._writes) as connection:
            try:
                with connection.transaction():
                    begun = True
                    return work(_PostgresSession(connection))
            except psycopg.OperationalError as error:
                if not begun and connection.closed:
                    raise _NothingSent(str(error)) from error
                raise


class _NothingSent(psycopg.OperationalError):
    """The connection was dead before anything was asked of it: to try again on a new one repeats nothing."""


class _PostgresSession(Session):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_native(statement), parameters).fetchall()

    def run(self, statement: str, *parameters: Any) -> int:
        return self._connection.execute(_native(statement), parameters).rowcount

    def run_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_native(statement), parameters)


@cache
def _native(statement: str) -> bytes:
    """Return a statement with the placeholders of the driver."""
    return statement.replace("?", "%s").encode()


def _prepare(session: Session, migrations: Sequence[Migration]) -> None:
    """Make the tables or bring them up to date; who starts at the same time waits."""
    session.rows(LOCK_SCHEMA)
    exists = session.rows("SELECT to_regclass('duelrank_meta') IS NOT NULL")[0][0]
    version = counter(session.rows("SELECT version FROM duelrank_meta")) if exists else 0
    migrate(session, version, migrations, TYPES)


def _known(session: Session, events: Sequence[NewEvent]) -> dict[tuple[str, str, str], int]:
    """Return the numbers of the keys that are in the log already."""
    if not events:
        return {}
    keys = [(event.ranker, event.kind, event.key) for event in events]
    return {(ranker, kind, key): number for ranker, kind, key, number in session.rows(KNOWN, *_columns(keys))}


def _insert_new(session: Session, new: Sequence[tuple[int, NewEvent]]) -> None:
    rows = [(number, event.ranker, event.kind, event.key, event.time) for number, event in new]
    bodies = [(row[0], checksum(event.body, *row[1:]), event.body) for row, (_, event) in zip(rows, new, strict=True)]
    attachments = [
        (event.ranker, number, checksum(event.attachment, event.ranker, number), event.attachment)
        for number, event in new
        if event.attachment is not None
    ]
    session.run(INSERT, *_columns(rows))
    session.run(INSERT_BODIES, *_columns(bodies))
    if attachments:
        session.run(INSERT_ATTACHMENTS, *_columns(attachments))
    session.run(SET_LAST_NUMBER, new[-1][0])


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
