"""The values that go into a store and come out of it, checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number

__all__ = ["ApiKey", "Event", "NewEvent", "Receipt", "Snapshot", "SnapshotInfo", "Usage", "checked_number"]

# Together they fit into an entry of a PostgreSQL index, which has room for 2,700 bytes.
MOST_BYTES = {"ranker": 500, "kind": 100, "key": 1000, "id": 200, "name": 200, "scope": 100}
MOST_BODY = 1 << 28
MOST_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that happened, on its way into the log.

    Parameters
    ----------
    ranker
        Whose event it is.
    kind
        A short word such as "ranked", "feedback" or "closed".
    key
        Tells the event from all others of this ranker and kind, also when it is sent twice.
    time
        Seconds, by the caller's clock; nothing depends on its order.
    body
        Whatever the caller wants to have back, as bytes.
    attachment
        Large data that is needed for a while only, such as the features of an impression.
    follows
        Whether the event is left out where the event before it in the same batch is not new.
    """

    ranker: str
    kind: str
    key: str
    time: float
    body: bytes
    attachment: bytes | None = None
    follows: bool = False

    def __post_init__(self) -> None:
        for name in ("ranker", "kind", "key"):
            object.__setattr__(self, name, checked_text(name, getattr(self, name)))
        object.__setattr__(self, "time", checked_time(self.time))
        checked_body(self.body)
        if self.attachment is not None:
            checked_body(self.attachment, "an attachment")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, with its place in the log.

    Parameters
    ----------
    number
        The place in the log, counted from 1 over all rankers.
    ranker, kind, key, time, body
        As in `NewEvent`.

    Examples
    --------
    >>> from duelrank.storage import NewEvent, open_storage
    >>> with open_storage("sqlite://") as store:
    ...     _ = store.log.append([NewEvent("shop", "ranked", key="i1", time=0.0, body=b"a list")])
    ...     (event,) = store.log.read()
    >>> event.number, event.body
    (1, b'a list')
    """

    number: int
    ranker: str
    kind: str
    key: str
    time: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an appended event is: its number, and whether it is new or the duplicate of an earlier one.

    Examples
    --------
    >>> from duelrank.storage import NewEvent, open_storage
    >>> event = NewEvent("shop", "ranked", key="i1", time=0.0, body=b"a list")
    >>> with open_storage("sqlite://") as store:
    ...     receipts = store.log.append([event]) + store.log.append([event])
    >>> receipts  # the second is the same event
    [Receipt(number=1, new=True), Receipt(number=1, new=False)]
    """

    number: int
    new: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was learned or published of a ranker, under a kind and a number.

    Parameters
    ----------
    ranker, kind
        Whose it is, and a short word for what it is.
    number
        The newest one has the highest.
    time
        Seconds, by the caller's clock.
    body
        Whatever the caller wants to have back, as bytes.
    """

    ranker: str
    kind: str
    number: int
    time: float
    body: bytes


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A stored snapshot without its body, of which it has the size in bytes."""

    ranker: str
    kind: str
    number: int
    time: float
    size: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The size of a store in bytes, and the free space on its disk; None where that is not known."""

    bytes: int
    free: int | None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Who may ask for what: the hash of a secret that the store never sees.

    Parameters
    ----------
    id
        The public part of the key.
    hash
        Of the secret part.
    scopes
        Words such as "rank", "feedback" and "admin".
    created
        Seconds, by the caller's clock.
    rankers
        Those that the key is for; empty for all.
    """

    id: str
    hash: bytes
    scopes: tuple[str, ...]
    created: float
    rankers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", checked_text("id", self.id))
        checked_body(self.hash)
        object.__setattr__(self, "scopes", tuple(checked_text("scope", scope) for scope in self.scopes))
        for scope in self.scopes:
            if len(scope.split()) != 1 or scope != scope.strip():
                raise InvalidValue(f"a scope is one word, got {scope!r}")
        object.__setattr__(self, "created", checked_time(self.created))
        object.__setattr__(self, "rankers", tuple(checked_text("ranker", ranker) for ranker in self.rankers))


def checked_text(name: str, text: Any) -> str:
    """Return a text that any database can hold and find again, or raise."""
    if not isinstance(text, str) or not text:
        raise InvalidValue(f"{name} must be a text that is not empty, got {text!r}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidValue(f"{name} must be proper Unicode, got {text!r}") from None
    if size > MOST_BYTES[name]:
        raise InvalidValue(f"{name} must have at most {MOST_BYTES[name]} bytes, got {size}")
    if "\0" in text:
        raise InvalidValue(f"{name} must not have a zero character in it, got {text!r}")
    return str.__str__(text)  # a member of an enumeration is a str too, but drivers and checksums see it differently


def checked_body(body: Any, what: str = "a body") -> bytes:
    """Return a body, or raise where it is not bytes or too many of them."""
    if not isinstance(body, bytes):
        raise InvalidValue(f"{what} must be bytes, got {type(body).__name__}")
    if len(body) > MOST_BODY:
        raise InvalidValue(f"{what} must have at most {MOST_BODY:,} bytes, got {len(body):,}")
    return body


def checked_time(time: Any) -> float:
    """Return seconds as a float, or raise where they are not a finite number."""
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not abs(time) < math.inf:
        raise InvalidValue(f"a time must be a finite number of seconds, got {time!r}")
    try:
        return float(time) + 0.0  # SQLite gives -0.0 back as 0.0
    except OverflowError:
        raise InvalidValue(f"a time must be a finite number of seconds, got {time!r}") from None


def checked_number(name: str, number: Any, least: int = 0) -> int:
    """Return a whole number that fits into a database's column, or raise."""
    return whole_number(name, number, least, MOST_NUMBER)
