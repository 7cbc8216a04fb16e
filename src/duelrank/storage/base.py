"""Defines the interfaces of a store: event log, snapshots, API keys and leases; the service knows nothing else of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from duelrank.storage.values import ApiKey, Event, NewEvent, Receipt, Snapshot, SnapshotInfo, Usage

__all__ = ["EventLog", "Keys", "Lease", "Leases", "Snapshots", "Storage"]


class EventLog(ABC):
    """An append-only log of events.

    Events are numbered 1, 2, 3, ... over all rankers, without gaps, in the order in which they become visible: a reader
    that has read up to a number will never find a smaller one later. The clock plays no part in that.
    """

    @abstractmethod
    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Hand over a batch to be appended whole or not at all; the future is done when it is on the disk.

        From a coroutine: ``await asyncio.wrap_future(log.submit(events))``. Batches that wait at the same time share one
        trip to the disk (group commit).

        Returns
        -------
        future
            One receipt per event, in the same order. An event whose (ranker, kind, key) is known already, from earlier
            or from this very batch, is not stored again: its receipt has the number of the first one. An event that
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
        """Return the events that have one of the keys, by key; any number of keys in as few statements as possible."""

    @abstractmethod
    def attachment(self, ranker: str, number: int) -> bytes | None:
        """Return the attachment of an event, or None where it has none or it was dropped."""

    @abstractmethod
    def last_number(self) -> int:
        """Return the number of the newest event ever appended, 0 before the first."""

    @abstractmethod
    def number_before(self, ranker: str, time: float) -> int:
        """Return the largest number up to which all events of a ranker that are still there have a time before this."""

    @abstractmethod
    def drop_attachments(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove the attachments of events that a checkpoint covers; the events themselves stay.

        Appends that wait meanwhile go in between; when interrupted, what is left goes with the next call. The cost is in
        proportion to what is removed and to ``keep``.

        Parameters
        ----------
        ranker
            Whose events.
        up_to
            Events up to this number; refused where no checkpoint of the ranker covers it. To be able to replay from the
            oldest checkpoint, give the number of that one.
        keep
            Numbers of events whose attachments stay, such as impressions that are still open.
        limit
            How many are removed at most; the rest goes with the next call.

        Returns
        -------
        count
            How many attachments were removed.
        """

    @abstractmethod
    def dropped(self, ranker: str) -> int:
        """Return the largest number up to which data of a ranker was removed, 0 where nothing was.

        A replay is possible from a checkpoint at or behind it.
        """

    @abstractmethod
    def delete(self, ranker: str, up_to: int, keep: Collection[int] = (), limit: int | None = None) -> int:
        """Remove events of a ranker up to a number, with their attachments and keys, except those to ``keep``.

        A duplicate that comes later than that counts as new. No checkpoint is asked for: this is also how a ranker is
        deleted. Interruptions, cost and limit are as for `drop_attachments`.

        Returns
        -------
        count
            How many events were removed.
        """


class Snapshots(ABC):
    """What was learned and published, each under a ranker, a kind and a number.

    Kinds are "checkpoint" (the state of a ranker after all events up to the number), "version" (a published model; the
    number counts versions) and "status".
    """

    @abstractmethod
    def save(self, ranker: str, kind: str, number: int, time: float, body: bytes) -> None:
        """Keep a snapshot; it replaces one with the same number. A checkpoint cannot cover events that did not happen."""

    @abstractmethod
    def load(self, ranker: str, kind: str, number: int | None = None) -> Snapshot | None:
        """Return the snapshot with exactly this number, or the newest where no number is given; None where there is none."""

    @abstractmethod
    def list(self, ranker: str, kind: str) -> list[SnapshotInfo]:
        """Return what snapshots there are, oldest first, without their bodies."""

    @abstractmethod
    def newest(self, kind: str) -> dict[str, int]:
        """Return the largest number of each ranker that has snapshots of a kind, in one statement."""

    @abstractmethod
    def prune(self, ranker: str, kind: str, keep: int, needed: Collection[int] = ()) -> int:
        """Remove all but the newest ``keep`` snapshots (at least one) and the needed numbers; return how many."""

    @abstractmethod
    def delete(self, ranker: str) -> None:
        """Remove all snapshots of a ranker, and the note of what was removed from its log (`EventLog.dropped`)."""


class Keys(ABC):
    """The API keys of those who may use the service."""

    @abstractmethod
    def add(self, key: ApiKey) -> None:
        """Keep the hash of an API key; an id that exists already is refused."""

    @abstractmethod
    def list(self) -> list[ApiKey]:
        """Return all API keys, oldest first."""

    @abstractmethod
    def revoke(self, id: str) -> bool:
        """Remove an API key; return whether there was one."""


class Lease(ABC):
    """A name that this process holds alone, until it releases or loses it."""

    @abstractmethod
    def renew(self) -> bool:
        """Send a heartbeat, at least every two seconds; return whether the lease is still held.

        A holder that sends none for some seconds loses the lease to the next process that asks for it.
        """

    @abstractmethod
    def held(self) -> bool:
        """Whether the lease is still held: False once it is released or lost, such as when the server restarted."""

    @abstractmethod
    def release(self) -> None:
        """Give the lease up; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Leases(ABC):
    """Names that one process at a time holds, among all processes on a store."""

    @abstractmethod
    def acquire(self, name: str) -> Lease | None:
        """Return a lease on a name, or None where another process (or this one) holds it.

        Does not wait. A holder that dies loses the lease at once; ask again every second or so to take over.
        """


class Storage(ABC):
    """A store: an event log, snapshots, API keys and leases.

    All methods may be called from any thread. Whatever a method has returned from is on the disk for good. Everything
    that goes wrong is a `duelrank.core.errors.StorageFailure`, whose ``retryable`` says whether the same call may succeed
    later, or an `InvalidValue` where the call itself makes no sense. Open a store in the process that uses it: it does
    not survive a fork.
    """

    log: EventLog
    snapshots: Snapshots
    keys: Keys
    leases: Leases
    #: Whether several processes may serve from the store at the same time.
    shared: bool

    @abstractmethod
    def usage(self) -> Usage:
        """Return the size of the store, and the free space on its disk where that is known."""

    @abstractmethod
    def ping(self) -> None:
        """Raise where the store does not answer."""

    @abstractmethod
    def close(self) -> None:
        """Finish the appends that were handed over, then release everything that is held; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
