"""Leases on PostgreSQL: an advisory lock that ends with its connection, and a heartbeat that ends with a hanging process."""

from __future__ import annotations

from contextlib import suppress

import psycopg

from duelrank.storage.base import Lease
from duelrank.storage.postgres.server import Connection, Server, close
from duelrank.storage.sql.leases import HeldLeases

__all__ = ["PostgresLeases"]

#: Seconds without a heartbeat after which the holder of a lease hangs, and loses it to whoever asks.
STALE = 6.0

LOCK = "hashtextextended(concat_ws('/', 'duelrank', current_schema(), %(name)s::text), 0)"
NOW = "extract(epoch FROM clock_timestamp())::double precision"  # the server's clock, the same for all processes
BEAT = f"""
    INSERT INTO duelrank_leases (name, holder, beat) SELECT %(name)s, pg_backend_pid(), {NOW} {{}}
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, beat = excluded.beat RETURNING name"""
RENEW = BEAT.format("")
# In one statement: a process that stops in between would hold the lock without a heartbeat that can become old.
TAKE = f"""
    WITH lock AS MATERIALIZED (SELECT pg_try_advisory_lock({LOCK}) AS ours) {BEAT.format("FROM lock WHERE ours")}"""
# Only a connection that holds this very lock is ended: its process id may have gone to another one since the heartbeat.
END_STALE = f"""
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN duelrank_leases ON pid = holder
    WHERE name = %(name)s AND beat < {NOW} - {STALE} AND locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = {LOCK}"""  # noqa: S608 (made of constants)


class PostgresLeases(HeldLeases):
    """Takes a lock on a connection of its own; the server ends it with the connection."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def _take(self, name: str) -> Lease | None:
        connection = self._server.connect()
        with self._server.translated():
            try:
                if _took(connection, name) or (_ended_stale(connection, name) and _took(connection, name)):
                    return _SessionLease(connection, name)
            except psycopg.Error:
                close(connection)
                raise
        close(connection)
        return None


class _SessionLease(Lease):
    """Held while its own connection lives."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name

    def renew(self) -> bool:
        try:
            self._connection.execute(RENEW, {"name": self._name})
        except psycopg.Error:
            return self.held()  # as on a full disk: where the connection lives, the lock is still ours
        return True

    def held(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            close(self._connection)
            return False
        return True

    def release(self) -> None:
        with suppress(psycopg.Error):  # the server notices a closed connection too, but a little later
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        close(self._connection)


def _took(connection: Connection, name: str) -> bool:
    """Try to take the lock, with a first heartbeat."""
    return connection.execute(TAKE, {"name": name}).fetchone() is not None


def _ended_stale(connection: Connection, name: str) -> bool:
    """End the connection of a holder that hangs; return whether there was one."""
    return connection.execute(END_STALE, {"name": name}).fetchone() is not None
