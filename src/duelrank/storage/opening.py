"""From an address to a store."""

from __future__ import annotations

import re
from urllib.parse import unquote

from duelrank.errors import InvalidValue, MissingExtra
from duelrank.storage.base import Storage
from duelrank.storage.sqlite import SQLiteStorage

__all__ = ["open_storage", "without_password"]

FORMS = "sqlite:///relative.db, sqlite:////absolute.db, sqlite:// (in memory) or postgresql://user@host/database"


def open_storage(url: str) -> Storage:
    """Open the store at an address, making its tables where there are none.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` for one in memory that is gone when closed, or
        ``postgresql://user@host/database`` in any form that libpq knows.

    Examples
    --------
    >>> from duelrank.storage import NewEvent, open_storage
    >>> with open_storage("sqlite://") as store:
    ...     event = NewEvent("shop", "ranked", key="i1", time=0.0, body=b"...")
    ...     store.append([event]), store.append([event])
    ([Receipt(number=1, new=True)], [Receipt(number=1, new=False)])
    """
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite":
        return SQLiteStorage(_path(url, rest))
    if found and scheme in ("postgresql", "postgres"):
        try:
            from duelrank.storage.postgres import PostgresStorage
        except ImportError:
            raise MissingExtra("a store in PostgreSQL needs psycopg: pip install 'duelrank[postgres]'") from None
        return PostgresStorage(url)
    raise InvalidValue(f"a store's address is like {FORMS}; got {without_password(url)!r}")


def _path(url: str, rest: str) -> str | None:
    """Return the path in an address of SQLite, None for memory."""
    if rest in ("", "/", "/:memory:"):
        return None
    if not rest.startswith("/"):
        raise InvalidValue(f"{url!r} has too few slashes: sqlite:///relative.db or sqlite:////absolute.db")
    return unquote(rest[1:])


def without_password(text: str) -> str:
    """Return an address, or a sentence with one in it, without the password, which has no place in a message."""
    return re.sub(r"(?<=:)[^@\s]*(?=@)", "***", re.sub(r"password=[^&\s]*", "password=***", text))
