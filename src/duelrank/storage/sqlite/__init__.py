"""A store in one SQLite file."""

from duelrank.storage.sqlite.store import SQLiteStorage

__all__ = ["SQLiteStorage"]
