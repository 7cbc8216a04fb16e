"""Durable storage: an event log, snapshots, API keys and leases, in SQLite, in PostgreSQL or in a backend of your own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote

from duelrank.core.errors import InvalidValue, MissingExtra
from duelrank.storage.base import (
    ApiKey,
    Event,
    EventLog,
    Keys,
    Lease,
    Leases,
    NewEvent,
    Receipt,
    SnapshotInfo,
    Snapshots,
    Storage,
    StoredSnapshot,
    Usage,
    without_password,
)

__all__ = [
    "ApiKey",
    "Event",
    "EventLog",
    "Keys",
    "Lease",
    "Leases",
    "NewEvent",
    "Receipt",
    "SnapshotInfo",
    "Snapshots",
    "Storage",
    "StoredSnapshot",
    "Usage",
    "open_storage",
    "register_storage",
]

Opener = TypeVar("Opener", bound=Callable[[str], Storage])

_BACKENDS: dict[str, Callable[[str], Storage]] = {}
_EXAMPLES: dict[str, str] = {}


def register_storage(*schemes: str, example: str) -> Callable[[Opener], Opener]:
    """Register the decorated function or `Storage` class: it opens the stores whose addresses have one of the schemes.

    The same module may register a scheme again.

    Parameters
    ----------
    schemes
        Schemes of addresses, the part before ``://``.
    example
        Example of an address, for error messages.
    """

    def register(opener: Opener) -> Opener:
        for scheme in schemes:
            if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
                raise InvalidValue(f"a scheme has lower-case letters, digits, '+', '.' and '-', got {scheme!r}")
            if scheme in _BACKENDS and _BACKENDS[scheme].__module__ != opener.__module__:
                raise InvalidValue(f"the scheme {scheme!r} is already registered")
        for scheme in schemes:
            _BACKENDS[scheme] = opener
        _EXAMPLES[schemes[0]] = example
        return opener

    return register


def open_storage(url: str, read_only: bool = False) -> Storage:
    """Open the store at an address, and create its tables if there are none.

    Parameters
    ----------
    url
        Address: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` for a store in memory,
        ``postgresql://user@host/database`` in any form that libpq accepts, or one of another registered backend.
    read_only
        Whether to open a SQLite file without writing to it or its folder, such as on a read-only disk. The file must have
        the current version of the schema. Other backends ignore this option.

    Examples
    --------
    >>> from duelrank.storage import NewEvent, open_storage
    >>> with open_storage("sqlite://") as store:
    ...     event = NewEvent("shop", "ranked", key="i1", time=0.0, body=b"...")
    ...     store.log.append([event]), store.log.append([event])
    ([Receipt(number=1, new=True)], [Receipt(number=1, new=False)])
    """
    scheme, found, _ = url.partition("://")
    if not found or scheme not in _BACKENDS:
        known = ", ".join(sorted(_BACKENDS))
        raise InvalidValue(
            f"the address of a store begins with one of these schemes: {known}; such as {', '.join(_EXAMPLES.values())}; "
            f"got {without_password(url)!r}"
        )
    return _open_sqlite(url, read_only) if scheme == "sqlite" and read_only else _BACKENDS[scheme](url)


@register_storage("sqlite", example="sqlite:///relative.db, sqlite:////absolute.db, sqlite:// (in memory)")
def _open_sqlite(url: str, read_only: bool = False) -> Storage:
    from duelrank.storage.sqlite import SQLiteStorage

    rest = url.removeprefix("sqlite://")
    if rest in ("", "/", "/:memory:"):
        return SQLiteStorage(None)
    if not rest.startswith("/"):
        raise InvalidValue(f"{url!r} has too few slashes: sqlite:///relative.db or sqlite:////absolute.db")
    return SQLiteStorage(unquote(rest[1:]), read_only=read_only)


@register_storage("postgresql", "postgres", example="postgresql://user@host/database")
def _open_postgres(url: str) -> Storage:
    try:
        from duelrank.storage.postgres import PostgresStorage
    except ImportError:
        raise MissingExtra("a store in PostgreSQL needs psycopg: pip install 'duelrank[postgres]'") from None
    return PostgresStorage(url)
