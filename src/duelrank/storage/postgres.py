"""A store in PostgreSQL: several processes, on several machines, share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from duelrank.errors import InvalidValue, StorageFailure, StoreCorrupt, StoreFull, StoreLocked, StoreUnavailable
from duelrank.storage import statements
from duelrank.storage.base import Lease
from duelrank.storage.opening import without_password
from duelrank.storage.pool import Pool
from duelrank.storage.schema import MIGRATIONS, Migration, Session, migrate
from duelrank.storage.sql import SQLStorage, checksum, counter
from duelrank.storage.values import NewEvent, Receipt

__all__ = ["PostgresStorage"]

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

TYPES = {"whole": "BIGINT", "real": "DOUBLE PRECISION", "bytes": "BYTEA"}
INSERT = """
    INSERT INTO duelrank_events (number, ranker, kind, key, time)
    SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::double precision[])"""
INSERT_BODY = """
    INSERT INTO duelrank_bodies (number, checksum, body) SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bytea[])"""
KNOWN = """
    SELECT ranker, kind, key, number FROM duelrank_events
    JOIN unnest(?::text[], ?::text[], ?::text[]) AS given (ranker, kind, key) USING (ranker, kind, key)"""
LEAD = "SELECT pg_try_advisory_lock(hashtextextended(concat_ws('/', 'duelrank', current_schema(), %s::text), 0))"
LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'duelrank', current_schema()), 0))"
CONFIGURE = """
    SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, value)
    JOIN pg_settings USING (name)"""  # an older server does not know all of them
# What is acknowledged must be on the disk; a server that waits for its replicas too may do so.
BE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""
READERS = 4

# What the address does not say. A server or network that is gone is noticed within seconds.
CONNECTION = {
    "application_name": "duelrank",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

# In milliseconds or seconds, as the server counts each. A client that is gone must not hold a lock or a lease for long,
# one that does nothing may stay. A plan that was made when the table was small is a bad one later.
SETTINGS = {
    "idle_in_transaction_session_timeout": "10000",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "plan_cache_mode": "force_custom_plan",
}

# By the beginning of the server's error code, the first that fits; a connection that breaks has none and counts as 08.
ERRORS: dict[str, tuple[type[StorageFailure], str]] = {
    "53100": (StoreFull, "there is no room left on the server's disk; nothing was written"),
    "55P03": (StoreLocked, "another process has held the log for too long; try again"),
    "25006": (StoreUnavailable, "the server accepts no writing at present"),
    "57014": (StoreLocked, "the server was told to stop this"),
    "XX001": (StoreCorrupt, "the server found its files damaged; restore a backup"),
    "XX002": (StoreCorrupt, "the server found an index damaged; restore a backup, or REINDEX"),
    "08": (StoreUnavailable, "the server cannot be reached, or lets nobody in"),
    "40": (StoreLocked, "another process was in the way; try again"),
    "42501": (StorageFailure, "the user may not do that; it must be allowed to create tables and to use them"),
    "53": (StoreUnavailable, "the server is short of something; try again"),
    "57": (StoreUnavailable, "the server is going down or starting"),
}


class PostgresStorage(SQLStorage):
    """A store in the tables ``duelrank_...`` of a PostgreSQL database, in the first schema of the search path.

    Every process has one connection that writes and a few that read; a lost one is made again. An append that fails with
    a retryable error may still have happened, if the connection broke while the server was confirming it: send it
    again, and the receipts say which events were there already.

    Parameters
    ----------
    url
        As libpq knows it: ``postgresql://user:password@host:5432/database?sslmode=require``.
    timeout
        Seconds to wait for other processes that append.
    migrations
        The versions of the schema; for tests.
    """

    def __init__(self, url: str, timeout: float = 5.0, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            reason = without_password(str(error).strip())
            raise InvalidValue(f"this is no address of a PostgreSQL database: {reason}") from None
        self._conninfo = make_conninfo(**{**CONNECTION, **{name: str(value) for name, value in given.items()}})
        self._name = f"the store {given.get('dbname', '')!r} at {given.get('host', 'the local socket')}"
        self._settings = SETTINGS | {"lock_timeout": str(max(1, round(timeout * 1000)))}
        self._writes, self._reads = (Pool(self._connect, _close, _usable, size) for size in (1, READERS))
        try:
            self._transact(lambda session: _prepare(session, migrations))
        except BaseException:
            self._writes.close()
            raise
        super().__init__()

    def _connect(self) -> Connection:
        with self._translated():
            connection = psycopg.connect(self._conninfo, autocommit=True)
            try:
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the server's default is
                connection.execute(CONFIGURE, (list(self._settings), list(self._settings.values())))
                connection.execute(BE_DURABLE)
            except psycopg.Error:
                _close(connection)
                raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn an error of the driver into one of ours."""
        try:
            yield
        except psycopg.Error as error:
            code = error.sqlstate
            reason = str(error).strip().partition("\n")[0]
            if code is None and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
                code = "08"
            found = next((ERRORS[start] for start in ERRORS if code and code.startswith(start)), None)
            kind, sentence = found or (StorageFailure, "the server refused")
            raise kind(without_password(f"{self._name}: {sentence} ({reason})")) from error

    def _query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        def ask() -> list[tuple[Any, ...]]:
            with self._reads.borrow() as connection:
                return connection.execute(_native(statement), parameters).fetchall()

        with self._translated():
            try:
                return ask()
            except psycopg.OperationalError as error:
                if error.sqlstate is not None and not error.sqlstate.startswith("57P"):
                    raise
                self._reads.clear()  # the server has restarted: the others are dead too
                return ask()

    def _transact(self, work: Callable[[Session], T]) -> T:
        with self._translated():
            try:
                return self._attempt(work)
            except _NothingSent:
                return self._attempt(work)

    def _attempt(self, work: Callable[[Session], T]) -> T:
        begun = False
        with self._writes.borrow() as connection:
            try:
                with connection.transaction():
                    begun = True
                    return work(_PostgresSession(connection))
            except psycopg.OperationalError as error:
                if not begun and connection.closed:
                    raise _NothingSent(str(error)) from error
                raise

    def _insert(self, session: Session, events: Sequence[NewEvent]) -> list[Receipt]:
        last = counter(session.rows(f"{statements.LAST_NUMBER} FOR UPDATE"))
        numbers = _known(session, events)
        receipts, rows, bodies = [], [], []
        for event in events:
            row = (event.ranker, event.kind, event.key, event.time)
            if new := row[:3] not in numbers:
                numbers[row[:3]] = last = last + 1
                rows.append((last, *row))
                bodies.append((last, checksum(event.body, *row), event.body))
            receipts.append(Receipt(numbers[row[:3]], new))
        if rows:
            session.run(INSERT, *_columns(rows))
            session.run(INSERT_BODY, *_columns(bodies))
            session.run(statements.SET_LAST_NUMBER, last)
        return receipts

    def _lead(self, name: str) -> Lease | None:
        """Take a lock that the server ends with our connection."""
        connection = self._connect()
        with self._translated():
            try:
                row = connection.execute(LEAD, (name,)).fetchone()
            except psycopg.Error:
                _close(connection)
                raise
        if row == (True,):
            return _SessionLease(connection)
        _close(connection)
        return None

    def close(self) -> None:
        """Finish the appends, give up what is led, and close the connections."""
        super().close()
        self._reads.close()
        self._writes.close()


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


class _SessionLease(Lease):
    """Holds while its own connection lives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def held(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            _close(self._connection)
            return False
        return True

    def release(self) -> None:
        with suppress(psycopg.Error):  # the server notices a closed connection too, but a little later
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        _close(self._connection)


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


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _usable(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()
