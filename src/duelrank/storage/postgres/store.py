"""A store in PostgreSQL: several processes, on several machines, share it."""

from __future__ import annotations

from collections.abc import Sequence

from duelrank.storage.postgres.database import PostgresDatabase
from duelrank.storage.postgres.leases import PostgresLeases
from duelrank.storage.postgres.server import Server
from duelrank.storage.sql.schema import MIGRATIONS, Migration
from duelrank.storage.sql.store import SQLStorage

__all__ = ["PostgresStorage"]


class PostgresStorage(SQLStorage):
    """A store in the tables ``duelrank_...`` of a PostgreSQL database, in the first schema of the search path.

    Every process has one connection that writes, a few that read, and one for each lease that it holds; a lost one is
    made again. An append that fails with a retryable error may still have happened, if the connection broke while the
    server was confirming it: send it again, and the receipts say which events were there already.

    Parameters
    ----------
    url
        As libpq knows it: ``postgresql://user:password@host:5432/database?sslmode=require``.
    timeout
        Seconds to wait for other processes that append.
    migrations
        The versions of the schema; for tests.
    """

    shared = True

    def __init__(self, url: str, timeout: float = 5.0, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        server = Server(url, timeout)
        super().__init__(PostgresDatabase(server, migrations), PostgresLeases(server))
