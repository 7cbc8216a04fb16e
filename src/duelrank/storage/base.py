"""The interfaces of a store (event log, snapshots, API keys and leases), and the values that they take and return."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number

# Ranker, kind and key together fit into an entry of a PostgreSQL index, which holds at most 2,700 bytes.
MAX_TEXT_BYTES = {"ranker": 500, "kind": 100, "key": 1000, "id": 200, "name": 200, "scope": 100}
MAX_BODY_BYTES = 1 << 28
MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be appended to the log.

    Parameters
    ----------
    ranker
        Name of the ranker.
    kind
        Kind of the event, a word such as "ranked", "feedback" or "closed".
    key
        Idempotency key: an event with a known ranker, kind and key is not stored again.
    time
        Seconds by the caller's clock; the order of events does not depend on it.
    body
        Content of the event.
    attachment
        Large data that is needed for a limited time, such as the features of an impression.
    follows
        Whether to leave the event out if the previous event of the same batch is not new.
    """

    ranker: str
    kind: str
    key: str
    time: float
    body: bytes
    attachment: bytes | None = None
    follows: bool = False

    def __post_init__(self) -> None:
        for name, given in (("ranker", self.ranker), ("kind", self.kind), ("key", self.key)):
            if type(given) is str and given.isascii() and 0 < len(given) <= 100 and "\0" not in given:
                continue  # valid, which takes half as long to find out as with `checked_text`
            object.__setattr__(self, name, checked_text(name, given))
        if type(self.time) is not float or not 0.0 < self.time < math.inf:
            object.__setattr__(self, "time", checked_time(self.time))
        checked_body(self.body)
        if self.attachment is not None:
            checked_body(self.attachment, "an attachment")


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the log.

    Parameters
    ----------
    number
        Position in the log, counted from 1 over all rankers.
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
    """The number of an appended event, and whether it is new or the duplicate of an earlier one.

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
class StoredSnapshot:
    """A snapshot of a ranker, such as a checkpoint or a version.

    Parameters
    ----------
    ranker
        Name of the ranker.
    kind
        Kind of the snapshot.
    number
        Number of the snapshot; the newest one has the largest.
    time
        Seconds by the caller's clock.
    body
        Content of the snapshot.
    """

    ranker: str
    kind: str
    number: int
    time: float
    body: bytes


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A stored snapshot with the size of its body in bytes instead of the body."""

    ranker: str
    kind: str
    number: int
    time: float
    size: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The size of a store and the free space on its disk, in bytes; None if the free space is unknown."""

    bytes: int
    free: int | None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key; the store holds a hash of its secret part, never the secret.

    Parameters
    ----------
    id
        Public part of the key.
    hash
        Hash of the secret part.
    scopes
        Permissions, such as "rank", "feedback" and "admin".
    created
        Seconds by the caller's clock.
    rankers
        Names of the rankers that the key is valid for; empty for all.
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


class EventLog(ABC):
    """An append-only log of events.

    Events are numbered 1, 2, 3, ... over all rankers, without gaps, in the order in which they become visible: a reader
    that has read up to a number never finds a smaller one later. The order does not depend on the clock.
    """

    @abstractmethod
    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Queue a batch to be appended completely or not at all; the future is done when the batch is on the disk.

        From a coroutine: ``await asyncio.wrap_future(log.submit(events))``. Batches that wait at the same time are
        written in one transaction (group commit).

        Returns
        -------
        future
            One receipt per event, in the same order. An event whose (ranker, kind, key) is already known, from the log
            or from the same batch, is not stored again: its receipt has the number of the first one. An event that
            ``follows`` one that is not new is left out: its receipt is ``Receipt(0, False)``.
        """

    def append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append a batch and wait until it is on the disk; see `submit`."""
        return self.submit(events).result()

    @abstractmethod
    def read(self, after: int = 0, limit: int = 1000, ranker: str | None = None) -> list[Event]:
        """Return the first events with a number above ``after``, in order, of one ranker or of all."""

    @abstractmethod
    def find(self, ranker: str, kind: str, keys: Collection[str]) -> dict[str, Event]:
        """Return the events that have one of the keys, by key, with as few statements as possible."""

    @abstractmethod
    def attachments(self, ranker: str, numbers: Collection[int]) -> dict[int, bytes]:
        """Return attachments by the numbers of their events, with as few statements as possible.

        Events without an attachment, and those whose attachment was dropped, are left out.
        """

    def attachment(self, ranker: str, number: int) -> bytes | None:
        """Return the attachment of an event, or None if it has none or its attachment was dropped."""
        return self.attachments(ranker, [number]).get(number)

    @abstractmethod
    def last_number(self) -> int:
        """Return the number of the newest event ever appended, 0 before the first."""

    @abstractmethod
    def number_before(self, ranker: str, time: float) -> int:
        """Return the largest number up to which all remaining events of a ranker have an earlier time."""

    @abstractmethod
    def drop_attachments(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove the attachments of events that a checkpoint covers; the events remain.

        Appends are possible meanwhile. After an interruption, the next call removes the rest. The cost is proportional to
        the number of removed and kept attachments.

        Parameters
        ----------
        ranker
            Name of the ranker.
        up_to
            Number of the last event; a checkpoint of the ranker must cover it. To be able to replay from the oldest
            checkpoint, use the number of that checkpoint.
        keep
            Numbers of events that keep their attachments, such as impressions that are still open.
        limit
            Largest number of attachments to remove; the next call removes the rest.

        Returns
        -------
        count
            Number of removed attachments.
        """

    @abstractmethod
    def dropped(self, ranker: str) -> int:
        """Return the largest number up to which data of a ranker was removed, 0 if none was.

        A replay can start at a checkpoint with this number or a larger one.
        """

    @abstractmethod
    def delete(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove events of a ranker up to a number, with their attachments and keys, except those to ``keep``.

        A later duplicate of a removed event is new. No checkpoint is required: this is also the way to delete a ranker.
        Interruptions, cost and limit are as in `drop_attachments`.

        Returns
        -------
        count
            Number of removed events.
        """


class Snapshots(ABC):
    """Snapshots of rankers, each with a kind and a number.

    Kinds are "checkpoint" (the state of a ranker after all events up to the number), "version" (a published model; the
    number counts versions), and others that the service defines.
    """

    @abstractmethod
    def save(self, ranker: str, kind: str, number: int, time: float, body: bytes, keep: int | None = None) -> None:
        """Store a snapshot, in place of one with the same number, and remove all but the newest ``keep`` of its kind.

        A checkpoint cannot cover an event that is not in the log.
        """

    @abstractmethod
    def load(self, ranker: str, kind: str, number: int | None = None) -> StoredSnapshot | None:
        """Return the snapshot with this number, the newest by default; None if there is none."""

    @abstractmethod
    def list(self, ranker: str, kind: str) -> list[SnapshotInfo]:
        """Return the snapshots without their bodies, oldest first."""

    @abstractmethod
    def newest(self, kind: str) -> dict[str, int]:
        """Return the number of the newest snapshot of a kind for each ranker that has one, with one statement."""

    @abstractmethod
    def prune(self, ranker: str, kind: str, keep: int, needed: Collection[int] = ()) -> int:
        """Remove all snapshots but the newest ``keep`` (at least one) and the needed numbers; return the number of removed ones."""

    @abstractmethod
    def delete(self, ranker: str) -> None:
        """Remove all snapshots of a ranker, and the value of `EventLog.dropped`."""


class Keys(ABC):
    """The API keys of the service."""

    @abstractmethod
    def add(self, key: ApiKey) -> None:
        """Store an API key; its id must be new."""

    @abstractmethod
    def list(self) -> list[ApiKey]:
        """Return all API keys, oldest first."""

    @abstractmethod
    def revoke(self, id: str) -> bool:
        """Remove an API key; return whether it existed."""


class Lease(ABC):
    """A name that this process holds exclusively until it releases or loses it."""

    def renew(self) -> bool:
        """Send a heartbeat, at least every two seconds; return whether the lease is still held.

        A holder that sends none for some seconds loses the lease to the next process that asks for it. Leases that end
        with their process need no heartbeats.
        """
        return self.held()

    @abstractmethod
    def held(self) -> bool:
        """Return whether the lease is still held; it is lost, for example, when the database server restarts."""

    @abstractmethod
    def release(self) -> None:
        """Release the lease; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Leases(ABC):
    """Leases on names; among all processes that use a store, at most one holds each name."""

    @abstractmethod
    def acquire(self, name: str) -> Lease | None:
        """Return a lease on a name, or None if another process (or this one) holds it.

        Does not wait. A process that ends loses its leases at once; to take over, try again every second or so.
        """


class Storage(ABC):
    """A store: an event log, snapshots, API keys and leases.

    All methods may be called from any thread. Data is durable as soon as the method that writes it has returned. Failures
    raise a `duelrank.core.errors.StorageFailure`, whose ``retryable`` says whether the same call may succeed later; invalid
    arguments raise an `InvalidValue`. A store does not survive a fork: open it in the process that uses it.
    """

    log: EventLog
    snapshots: Snapshots
    keys: Keys
    leases: Leases
    #: Whether several processes may serve from the store at the same time.
    shared: bool

    @abstractmethod
    def usage(self) -> Usage:
        """Return the size of the store, and the free space on its disk if it is known."""

    @abstractmethod
    def ping(self) -> None:
        """Raise an error if the store does not answer."""

    @abstractmethod
    def close(self) -> None:
        """Finish the queued appends, then release all resources; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def checked_text(name: str, text: Any) -> str:
    """Return a text that every database can store and find, or raise an error."""
    if not isinstance(text, str) or not text:
        raise InvalidValue(f"{name} must be a non-empty text, got {text!r}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidValue(f"{name} must be valid Unicode, got {text!r}") from None
    if size > MAX_TEXT_BYTES[name]:
        raise InvalidValue(f"{name} must have at most {MAX_TEXT_BYTES[name]} bytes, got {size}")
    if "\0" in text:
        raise InvalidValue(f"{name} must not contain a zero character, got {text!r}")
    return str.__str__(text)  # a member of a string enumeration is a str too, but drivers and checksums differ


def checked_body(body: Any, what: str = "a body") -> bytes:
    """Return a body, or raise an error if it is not of type bytes or too large."""
    if not isinstance(body, bytes):
        raise InvalidValue(f"{what} must be bytes, got {type(body).__name__}")
    if len(body) > MAX_BODY_BYTES:
        raise InvalidValue(f"{what} must have at most {MAX_BODY_BYTES:,} bytes, got {len(body):,}")
    return body


def checked_time(time: Any) -> float:
    """Return a time in seconds as a float, or raise an error if it is not a finite number."""
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not abs(time) < math.inf:
        raise InvalidValue(f"a time must be a finite number of seconds, got {time!r}")
    try:
        return float(time) + 0.0  # SQLite returns -0.0 as 0.0
    except OverflowError:
        raise InvalidValue(f"a time must be a finite number of seconds, got {time!r}") from None


def checked_number(name: str, number: Any, least: int = 0) -> int:
    """Return a whole number that fits into a column of a database, or raise an error."""
    return whole_number(name, number, least, MAX_NUMBER)


def without_password(text: str) -> str:
    """Return an address, or a message that contains one, with the password replaced by asterisks."""
    return re.sub(r"(?<=:)[^@\s]*(?=@)", "***", re.sub(r"password=[^&\s]*", "password=***", text))
