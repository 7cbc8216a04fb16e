"""How to reach a PostgreSQL server: the settings of a connection, and the server's errors in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import PoolClosed

from duelrank.core.errors import InvalidValue, StorageFailure, StoreCorrupt, StoreFull, StoreLocked, StoreUnavailable
from duelrank.storage.opening import without_password

__all__ = ["Connection", "Server", "close"]

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

CONFIGURE = """
    SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, value)
    JOIN pg_settings USING (name)"""  # an older server does not know all of them
# What is acknowledged must be on the disk; a server that waits for its replicas too may do so.
BE_DURABLE = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"""

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
    "idle_in_transaction_session_timeout": "5000",
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
    "25P03": (StoreUnavailable, "the server has ended a transaction of a process that stood still; try again"),
    "57014": (StoreLocked, "the server was told to stop this"),
    "XX001": (StoreCorrupt, "the server found its files damaged; restore a backup"),
    "XX002": (StoreCorrupt, "the server found an index damaged; restore a backup, or REINDEX"),
    "08": (StoreUnavailable, "the server cannot be reached, or lets nobody in"),
    "40": (StoreLocked, "another process was in the way; try again"),
    "42501": (StorageFailure, "the user may not do that; it must be allowed to create tables and to use them"),
    "53": (StoreUnavailable, "the server is short of something; try again"),
    "57": (StoreUnavailable, "the server is going down or starting"),
}


class Server:
    """An address of a database, and everything that its connections have in common."""

    def __init__(self, url: str, timeout: float) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            reason = without_password(str(error).strip())
            raise InvalidValue(f"this is not an address of a PostgreSQL database: {reason}") from None
        self.conninfo = make_conninfo(**{**CONNECTION, **{name: str(value) for name, value in given.items()}})
        self._name = f"the store {given.get('dbname', '')!r} at {given.get('host', 'the local socket')}"
        self._settings = SETTINGS | {"lock_timeout": str(max(1, round(timeout * 1000)))}

    def connect(self) -> Connection:
        """Open a connection that the caller closes."""
        with self.translated():
            connection = psycopg.connect(self.conninfo, autocommit=True)
            try:
                self.configure(connection)
            except psycopg.Error:
                close(connection)
                raise
        return connection

    def configure(self, connection: Connection) -> None:
        """Prepare a new connection."""
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the server's default is
        connection.execute(CONFIGURE, (list(self._settings), list(self._settings.values())))
        connection.execute(BE_DURABLE)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn an error of the driver into one of ours."""
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


def close(connection: Connection) -> None:
    """Close a connection, whatever state it is in."""
    with suppress(psycopg.Error):
        connection.close()
