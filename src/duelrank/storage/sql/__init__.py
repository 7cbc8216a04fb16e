"""What all stores in SQL share: the tables, and everything but how to connect, to insert and to hold a lease."""

from duelrank.storage.sql.checksums import checksum
from duelrank.storage.sql.database import Database, Session
from duelrank.storage.sql.log import SQLEventLog
from duelrank.storage.sql.store import SQLStorage

__all__ = ["Database", "SQLEventLog", "SQLStorage", "Session", "checksum"]
