"""API keys in SQL."""

from __future__ import annotations

import json
from typing import Any

from duelrank.core.errors import InvalidValue, StoreCorrupt
from duelrank.storage.base import Keys
from duelrank.storage.sql.database import Database, Session
from duelrank.storage.values import ApiKey, checked_text

__all__ = ["SQLKeys"]

LIST = "SELECT id, hash, scopes, created, rankers FROM duelrank_keys ORDER BY created, id"
HAS = "SELECT id FROM duelrank_keys WHERE id = ?"
ADD = "INSERT INTO duelrank_keys (id, hash, scopes, created, rankers) VALUES (?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM duelrank_keys WHERE id = ?"


class SQLKeys(Keys):
    """API keys in a table of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, key: ApiKey) -> None:
        """Keep the hash of an API key."""
        row = (key.id, key.hash, " ".join(key.scopes), key.created, json.dumps(key.rankers))

        def add(session: Session) -> None:
            if session.rows(HAS, key.id):
                raise InvalidValue(f"there is an API key {key.id!r} already")
            session.run(ADD, *row)

        self._database.write(add)

    def list(self) -> list[ApiKey]:
        """Return all API keys."""
        return [_key(*row) for row in self._database.query(LIST)]

    def revoke(self, id: str) -> bool:
        """Remove an API key."""
        checked_text("id", id)
        return self._database.write(lambda session: session.run(REMOVE, id)) > 0


def _key(id: Any, hash: Any, scopes: Any, created: Any, rankers: Any) -> ApiKey:
    try:
        return ApiKey(id, hash, tuple(scopes.split()), created, tuple(json.loads(rankers)))
    except (InvalidValue, AttributeError, TypeError, ValueError):
        raise StoreCorrupt(f"the API key {id!r} is damaged; revoke it, and make another") from None
