"""A store in PostgreSQL, which several processes on several machines can share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from duelrank.core.errors import InvalidValue, StorageFailure, StoreCorrupt, StoreFull, StoreLocked, StoreUnavailable
from duelrank.storage.base import Lease, Usage, without_password
from duelrank.storage.sql import MIGRATIONS, TABLES, Migration, Rows, Session, SQLStorage, counter, migrate

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Pool: TypeAlias = "ConnectionPool[Connection]"

TYPES = {"whole": "BIGINT", "real": "DOUBLE PRECISION", "bytes": "BYTEA"}
INSERT = {
    "events": """
        INSERT INTO duelrank_events (number, ranker, kind, key, time)
        SELECT * FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::double precision[])""",
    "bodies": """
        INSERT INTO duelrank_bodies (number, checksum, body)
        SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bytea[])""",
    "attachments": """
        INSERT INTO duelrank_attachments (ranker, number, checksum, body)
        SELECT * FROM unnest(?::text[], ?::bigint[], ?::bigint[], ?::bytea[])""",
}
KNOWN = """
    SELECT ranker, kind, key, number FROM duelrank_events
    JOIN unnest(?::text[], ?::text[], ?::text[]) AS given (ranker, kind, key) USING (ranker, kind, key)"""
FIND = """
    SELECT number, ranker, kind, key, time, checksum, body FROM duelrank_events LEFT JOIN duelrank_bodies USING (number)
    WHERE ranker = ? AND kind = ? AND key = ANY(?::text[])"""
ATTACHMENTS = """
    SELECT number, checksum, body FROM duelrank_attachments WHERE ranker = ? AND number = ANY(?::bigint[])"""
LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(hashtextextended(concat_ws('/', 'duelrank', current_schema()), 0))"
SIZE = "SELECT sum(pg_total_relation_size(to_regclass(name)))::bigint FROM unnest(?::text[]) AS given (name)"

CONFIGURE = """
    SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, value)
    JOIN pg_settings USING (name)"""  # an older server does not know all of them
# Acknowledged data must be on the disk; a setting that also waits for replicas is kept.
BE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""

READERS = 4
PATIENCE = 3.0  # seconds to wait for a connection, such as while the server restarts

# Defaults of the address. The loss of a server or network is noticed within seconds.
CONNECTION = {
    "application_name": "duelrank",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

# In the units of the server, milliseconds or seconds. A lost client must not hold a lock or a lease for long; an idle
# client is not disconnected. Plans are not cached: one that was made for a small table is slow for a large one.
SETTINGS = {
    "idle_in_transaction_session_timeout": "5000",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "plan_cache_mode": "force_custom_plan",
}

# By prefix of the server's error code; the first match counts. A broken connection has no code and counts as 08.
ERRORS: dict[str, tuple[type[StorageFailure], str]] = {
    "53100": (StoreFull, "the server's disk is full; nothing was written"),
    "55P03": (StoreLocked, "another process has held the log for too long; try again"),
    "25006": (StoreUnavailable, "the server is read-only at present"),
    "25P03": (StoreUnavailable, "the server has ended a transaction of a process that did not continue; try again"),
    "57014": (StoreLocked, "the server has cancelled this statement"),
    "XX001": (StoreCorrupt, "the server found its files damaged; restore a backup"),
    "XX002": (StoreCorrupt, "the server found an index damaged; restore a backup, or REINDEX"),
    "08": (StoreUnavailable, "the server cannot be reached, or refuses connections"),
    "40": (StoreLocked, "this conflicts with another process; try again"),
    "42501": (StorageFailure, "permission denied; the user must be allowed to create tables and to use them"),
    "53": (StoreUnavailable, "the server has too few resources; try again"),
    "57": (StoreUnavailable, "the server is stopping or starting"),
}

#: Seconds without a heartbeat after which another process may end the connection of a lease's holder.
STALE = 6.0

LOCK = "hashtextextended(concat_ws('/', 'duelrank', current_schema(), %(name)s::text), 0)"
NOW = "extract(epoch FROM clock_timestamp())::double precision"  # the server's clock, the same for all processes
BEAT = f"""
    INSERT INTO duelrank_leases (name, holder, beat) SELECT %(name)s, pg_backend_pid(), {NOW} {{}}
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, beat = excluded.beat RETURNING name"""
RENEW = BEAT.format("")
# One statement: a process that stopped between two would hold the lock without a heartbeat that can become stale.
TAKE = f"""
    WITH lock AS MATERIALIZED (SELECT pg_try_advisory_lock({LOCK}) AS ours) {BEAT.format("FROM lock WHERE ours")}"""
# Ends only a connection that holds this lock: another connection may have its process id since the last heartbeat.
END_STALE = f"""
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN duelrank_leases ON pid = holder
    WHERE name = %(name)s AND beat < {NOW} - {STALE} AND locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = {LOCK}"""  # noqa: S608 (made of constants)

# The pool logs a warning for each failed attempt; the error that we raise has the reason.
if (_logger := logging.getLogger("psycopg.pool")).level == logging.NOTSET:
    _logger.setLevel(logging.ERROR)


class PostgresStorage(SQLStorage):
    """A store in the tables ``duelrank_...`` of a PostgreSQL database, in the first schema of the search path.

    Every process has one connection for writing, up to four for reading, and one for each lease that it holds; lost ones
    are replaced. An append that fails with a retryable error may have been committed, if the connection broke while the
    server was confirming it: send it again, and the receipts say which events are duplicates.

    Parameters
    ----------
    url
        Address as libpq accepts it: ``postgresql://user:password@host:5432/database?sslmode=require``.
    timeout
        Seconds to wait for other processes that append.
    migrations
        Versions of the schema, for tests.
    """

    shared = True
    row_lock = " FOR UPDATE"

    def __init__(self, url: str, timeout: float = 5.0, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            reason = without_password(str(error).strip())
            raise InvalidValue(f"this is not an address of a PostgreSQL database: {reason}") from None
        self._conninfo = make_conninfo(**{**CONNECTION, **{name: str(value) for name, value in given.items()}})
        self._name = f"the store {given.get('dbname', '')!r} at {given.get('host', 'the local socket')}"
        self._settings = SETTINGS | {"lock_timeout": str(max(1, round(timeout * 1000)))}
        connection = self._connect()  # not from a pool, which could not say why it has no connection
        try:
            with self._translated(), connection.transaction():
                _prepare(Session(connection, _native), migrations)
        finally:
            _close(connection)
        self._writes, self._reads = self._pool(1), self._pool(READERS)
        super().__init__()

    def query(self, statement: str, *parameters: Any) -> Rows:
        """Execute one reading statement."""

        def ask() -> Rows:
            with self._borrowed(self._reads) as connection:
                return connection.execute(_native(statement), parameters).fetchall()

        with self._translated():
            try:
                return ask()
            except psycopg.OperationalError as error:
                if error.sqlstate is not None and not error.sqlstate.startswith("57P"):
                    raise
                self._reads.check()  # the server has restarted: all other connections are broken too
                return ask()

    def transact(self, work: Callable[[Session], T]) -> T:
        """Call a function inside a transaction."""
        with self._translated():
            try:
                return self._attempt(work)
            except _NothingSent:
                return self._attempt(work)

    def insert_rows(self, session: Session, table: str, rows: Rows) -> int:
        """Insert rows into a table."""
        return session.run(INSERT[table], *_columns(rows)) if rows else 0

    def known_numbers(self, session: Session, keys: Rows) -> Rows:
        """Return the keys that are in the log, with their numbers."""
        return session.rows(KNOWN, *_columns(keys))

    def find_rows(self, ranker: str, kind: str, keys: Sequence[str]) -> Rows:
        """Return the rows of the events that have one of the keys."""
        return self.query(FIND, ranker, kind, list(keys)) if keys else []

    def attachment_rows(self, ranker: str, numbers: Sequence[int]) -> Rows:
        """Return the rows of attachments."""
        return self.query(ATTACHMENTS, ranker, list(numbers)) if numbers else []

    def take_lease(self, name: str) -> Lease | None:
        """Take an advisory lock on a connection of its own; the server releases it at the end of the connection."""
        connection = self._connect()

        def succeeds(statement: LiteralString) -> bool:
            return connection.execute(statement, {"name": name}).fetchone() is not None

        with self._translated():
            try:
                if succeeds(TAKE) or (succeeds(END_STALE) and succeeds(TAKE)):
                    return _SessionLease(connection, name)
            except psycopg.Error:
                _close(connection)
                raise
        _close(connection)
        return None

    def usage(self) -> Usage:
        """Return the size of our tables; the free space of the server's disk is unknown."""
        return Usage(counter(self.query(SIZE, list(TABLES))), None)

    def close(self) -> None:
        """Finish the appends, release the leases and close the connections."""
        super().close()
        self._reads.close()
        self._writes.close()

    def _connect(self) -> Connection:
        """Open a connection that the caller closes."""
        with self._translated():
            connection = psycopg.connect(self._conninfo, autocommit=True)
            try:
                self._configure(connection)
            except psycopg.Error:
                _close(connection)
                raise
        return connection

    def _configure(self, connection: Connection) -> None:
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the server's default is
        connection.execute(CONFIGURE, (list(self._settings), list(self._settings.values())))
        connection.execute(BE_DURABLE)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate an error of the driver into a `StorageFailure`."""
        try:
            yield
        except PoolClosed:
            raise StorageFailure("this store was closed; open it again") from None
        except psycopg.Error as error:
            code = error.sqlstate
            reason = str(error).strip().partition("\n")[0]
            if code is None and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
                code = "08"
            found = next((ERRORS[start] for start in ERRORS if code and code.startswith(start)), None)
            kind, sentence = found or (StorageFailure, "the server refused")
            raise kind(without_password(f"{self._name}: {sentence} ({reason})")) from error

    def _pool(self, size: int) -> Pool:
        return ConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True},
            configure=self._configure,
            min_size=1,
            max_size=size,
            timeout=PATIENCE,
            reconnect_timeout=PATIENCE,  # then the next caller starts again, without ever longer pauses
            num_workers=1,
            open=True,
        )

    @contextmanager
    def _borrowed(self, pool: Pool) -> Iterator[Connection]:
        """Use a connection of a pool inside a ``with`` statement."""
        connection = None
        while connection is None:
            try:
                connection = pool.getconn()
            except PoolTimeout:
                _close(self._connect())  # raises the reason; if it connects, the pool's connections are only busy
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
                    return work(Session(connection, _native))
            except psycopg.OperationalError as error:
                if not begun and connection.closed:
                    raise _NothingSent(str(error)) from error
                raise


class _NothingSent(psycopg.OperationalError):
    """The connection was broken before the first statement, so that another attempt repeats nothing."""


class _SessionLease(Lease):
    """A lease that is held as long as its own connection exists; without heartbeats, another process may end that connection."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name

    def renew(self) -> bool:
        try:
            self._connection.execute(RENEW, {"name": self._name})
        except psycopg.Error:
            return self.held()  # such as on a full disk: as long as the connection exists, the lock is held
        return True

    def held(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            _close(self._connection)
            return False
        return True

    def release(self) -> None:
        with suppress(psycopg.Error):  # the server also notices a closed connection, but a little later
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        _close(self._connection)


@cache
def _native(statement: str) -> bytes:
    """Return a statement with the placeholders of the driver."""
    return statement.replace("?", "%s").encode()


def _prepare(session: Session, migrations: Sequence[Migration]) -> None:
    """Create or update the tables; other processes that start at the same time wait."""
    session.rows(LOCK_SCHEMA)
    exists = session.rows("SELECT to_regclass('duelrank_meta') IS NOT NULL")[0][0]
    version = counter(session.rows("SELECT version FROM duelrank_meta")) if exists else 0
    migrate(session, version, migrations, TYPES)


def _columns(rows: Rows) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _close(connection: Connection) -> None:
    """Close a connection in any state."""
    with suppress(psycopg.Error):
        connection.close()
