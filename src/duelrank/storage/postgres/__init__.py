"""A store in PostgreSQL."""

from duelrank.storage.postgres.store import PostgresStorage

__all__ = ["PostgresStorage"]
