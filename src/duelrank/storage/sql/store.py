"""A store in a database: its four interfaces on one set of connections."""

from __future__ import annotations

from duelrank.storage.base import Storage
from duelrank.storage.sql.database import Database
from duelrank.storage.sql.keys import SQLKeys
from duelrank.storage.sql.leases import HeldLeases
from duelrank.storage.sql.log import SQLEventLog
from duelrank.storage.sql.snapshots import SQLSnapshots
from duelrank.storage.values import Usage

__all__ = ["SQLStorage"]


class SQLStorage(Storage):
    """The part of a store that is the same in all databases."""

    def __init__(self, database: Database, leases: HeldLeases) -> None:
        self.database = database
        self.log, self.snapshots, self.keys = SQLEventLog(database), SQLSnapshots(database), SQLKeys(database)
        self.leases = self._leases = leases

    def usage(self) -> Usage:
        """Return the size of the store."""
        return self.database.usage()

    def ping(self) -> None:
        """Raise where the store does not answer."""
        self.database.ping()

    def close(self) -> None:
        """Finish the appends, release the leases, and close the connections."""
        self.database.close()
        self._leases.close()
