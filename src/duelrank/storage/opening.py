"""Opens the store at an address; backends are registered by the scheme of their addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote

from duelrank.core.errors import InvalidValue, MissingExtra
from duelrank.storage.base import Storage

__all__ = ["open_storage", "register_storage", "without_password"]

Opens = TypeVar("Opens", bound=Callable[[str], Storage])

_BACKENDS: dict[str, Callable[[str], Storage]] = {}
_EXAMPLES: dict[str, str] = {}


def register_storage(*schemes: str, example: str) -> Callable[[Opens], Opens]:
    """Decorate a function that opens a store, or a `Storage`, to be called with addresses that have one of the schemes.

    The same module may register a scheme again.

    Parameters
    ----------
    schemes
        What such an address begins with, before ``://``.
    example
        An address, for messages.
    """

    def register(opens: Opens) -> Opens:
        for scheme in schemes:
            if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
                raise InvalidValue(f"a scheme has lower-case letters, digits, '+', '.' and '-', got {scheme!r}")
            if scheme in _BACKENDS and _BACKENDS[scheme].__module__ != opens.__module__:
                raise InvalidValue(f"the scheme {scheme!r} is already registered")
        for scheme in schemes:
            _BACKENDS[scheme] = opens
        _EXAMPLES[schemes[0]] = example
        return opens

    return register


def open_storage(url: str, read_only: bool = False) -> Storage:
    """Open the store at an address, making its tables where there are none.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``sqlite://`` for one in memory that is gone when closed,
        ``postgresql://user@host/database`` in any form that libpq knows, or what another backend has registered.
    read_only
        Only read: a SQLite file is opened such that it may be on a read-only disk, or belong to somebody else; it must have been
        made by this version of duelrank. Other backends take no notice.

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
            f"a store's address begins with one of these schemes: {known}; such as {', '.join(_EXAMPLES.values())}; "
            f"got {without_password(url)!r}"
        )
    return _sqlite(url, read_only) if scheme == "sqlite" and read_only else _BACKENDS[scheme](url)


@register_storage("sqlite", example="sqlite:///relative.db, sqlite:////absolute.db, sqlite:// (in memory)")
def _sqlite(url: str, read_only: bool = False) -> Storage:
    from duelrank.storage.sqlite import SQLiteStorage

    rest = url.removeprefix("sqlite://")
    if rest in ("", "/", "/:memory:"):
        return SQLiteStorage(None)
    if not rest.startswith("/"):
        raise InvalidValue(f"{url!r} has too few slashes: sqlite:///relative.db or sqlite:////absolute.db")
    return SQLiteStorage(unquote(rest[1:]), read_only=read_only)


@register_storage("postgresql", "postgres", example="postgresql://user@host/database")
def _postgres(url: str) -> Storage:
    try:
        from duelrank.storage.postgres import PostgresStorage
    except ImportError:
        raise MissingExtra("a store in PostgreSQL needs psycopg: pip install 'duelrank[postgres]'") from None
    return PostgresStorage(url)


def without_password(text: str) -> str:
    """Return an address, or a sentence with one in it, without the password, which has no place in a message."""
    return re.sub(r"(?<=:)[^@\s]*(?=@)", "***", re.sub(r"password=[^&\s]*", "password=***", text))
