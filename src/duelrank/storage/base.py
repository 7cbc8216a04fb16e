"""What every store of events and snapshots must do; the service above knows nothing else of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from duelrank.storage.values import ApiKey, Event, NewEvent, Receipt, SnapshotInfo, StoredSnapshot

__all__ = ["Lease", "Storage"]


class Storage(ABC):
    """An append-only log of events, snapshots of what was learned from it, and the keys of those who may ask.

    All methods may be called from any thread. Whatever a method has returned from is on the disk for good. Everything
    that goes wrong is a `duelrank.errors.StorageFailure`, whose ``retryable`` says whether the same call may succeed
    later, or an `InvalidValue` where the call itself makes no sense. Open a store in the process that uses it: it does
    not survive a fork.

    Events are numbered 1, 2, 3, ... over all rankers, without gaps, in the order in which they become visible: who has
    read up to a number will never find a smaller one later. The clock plays no part in that.
    """

    @abstractmethod
    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Hand over a batch to be appended whole or not at all; the future is done when it is on the disk.

        From a coroutine: ``await asyncio.wrap_future(storage.submit(events))``. Batches that wait at the same time share
        one trip to the disk.

        Returns
        -------
        future
            One receipt per event, in the same order. An event whose (ranker, kind, key) is known already, from earlier
            or from this very batch, is not stored again: its receipt has the number of the first one.
        """

    def append(self, events: Sequence[NewEvent]) -> list[Receipt]:
        """Append a batch and wait until it is on the disk; see `submit`."""
        return self.submit(events).result()

    @abstractmethod
    def read(self, after: int = 0, limit: int = 1000, ranker: str | None = None) -> list[Event]:
        """Return the first events with a number above ``after``, in order, of one ranker or of all; never pruned ones."""

    @abstractmethod
    def find(self, ranker: str, kind: str, key: str) -> Event | None:
        """Return the event with a key, or None where there is none or it was pruned."""

    @abstractmethod
    def known(self, ranker: str, kind: str, key: str) -> int | None:
        """Return the number that a key was given, also after its event was pruned, until the key is forgotten."""

    @abstractmethod
    def last_number(self) -> int:
        """Return the number of the newest event ever appended, 0 before the first."""

    @abstractmethod
    def number_before(self, ranker: str, time: float) -> int:
        """Return the largest number up to which all remembered events of a ranker have a time before the given one."""

    @abstractmethod
    def save_snapshot(self, ranker: str, number: int, time: float, body: bytes) -> None:
        """Keep what was learned from all events of a ranker up to a number; replaces one with the same number."""

    @abstractmethod
    def load_snapshot(self, ranker: str, at: int | None = None) -> StoredSnapshot | None:
        """Return the newest snapshot, or the newest with a number of at most ``at``."""

    @abstractmethod
    def snapshots(self, ranker: str) -> list[SnapshotInfo]:
        """Return what snapshots there are, oldest first, without their bodies."""

    @abstractmethod
    def prune_snapshots(self, ranker: str, keep: int, pinned: Collection[int] = ()) -> int:
        """Remove all but the newest ``keep`` snapshots (at least one) and the pinned numbers; return how many."""

    @abstractmethod
    def prune(self, ranker: str, up_to: int, *, keep: Collection[int] = (), forget: int = 0) -> int:
        """Remove the bodies of events that a snapshot covers, so that the store stays bounded.

        The keys stay known: a late duplicate is still told from a new event, `known` still gives its number. To bound
        these as well, ``forget`` the oldest: a duplicate that comes later than that counts as new. Appends that wait
        meanwhile go in between; when interrupted, what is left goes with the next call.

        Parameters
        ----------
        ranker
            Whose events.
        up_to
            Events up to this number; refused where no snapshot of the ranker covers it. To be able to replay from the
            oldest snapshot, give the number of that one.
        keep
            Numbers of events to leave alone, such as impressions that are still open.
        forget
            Forget the keys of pruned events up to this number too.

        Returns
        -------
        count
            How many events were removed.
        """

    @abstractmethod
    def pruned(self, ranker: str) -> int:
        """Return the largest number that a ranker was pruned up to: the log is whole behind it, 0 where it is whole."""

    @abstractmethod
    def add_key(self, key: ApiKey) -> None:
        """Keep the hash of an API key; an id that exists already is refused."""

    @abstractmethod
    def keys(self) -> list[ApiKey]:
        """Return all API keys, oldest first."""

    @abstractmethod
    def revoke_key(self, id: str) -> bool:
        """Remove an API key; return whether there was one."""

    @abstractmethod
    def try_lead(self, name: str) -> Lease | None:
        """Become the only holder of a name among all processes on this store, or return None where another one is.

        Does not wait. A holder that dies loses the name at once; ask again every second or so to take over.
        """

    @abstractmethod
    def ping(self) -> None:
        """Raise where the store does not answer."""

    @abstractmethod
    def close(self) -> None:
        """Finish the appends that were handed over, then let go of everything that is held; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Lease(ABC):
    """A name that this process holds alone."""

    @abstractmethod
    def held(self) -> bool:
        """Whether the name is still ours; False once released or lost, such as when the database server restarted."""

    @abstractmethod
    def release(self) -> None:
        """Give the name up; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
