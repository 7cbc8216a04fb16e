"""Group commit: one thread writes all batches that were queued during the previous transaction in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from duelrank.core.errors import InvalidValue, StorageFailure, StoreLocked, StoreUnavailable
from duelrank.storage.base import NewEvent, Receipt

T = TypeVar("T")

# Larger groups are not faster, and their first batch would wait too long.
MAX_JOBS, MAX_BYTES = 1000, 8 << 20


class _Batch:
    """Events that one caller appends together."""

    def __init__(self, events: Sequence[NewEvent]) -> None:
        self.events = tuple(events)
        if not all(isinstance(event, NewEvent) for event in self.events):
            raise InvalidValue("only instances of NewEvent can be appended")
        if self.events and self.events[0].follows:
            raise InvalidValue("the first event of a batch cannot follow another one")
        self.size = sum(len(event.body) + len(event.attachment or b"") for event in self.events)
        self.future: Future[list[Receipt]] = Future()


class _Call:
    """A write of one caller that is not an append."""

    size = 0

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.future: Future[Any] = Future()


class GroupWriter:
    """Executes all writes of a store in its own thread, in the order of their arrival.

    Parameters
    ----------
    insert
        Function that appends events in one transaction and returns when they are on the disk.
    """

    def __init__(self, insert: Callable[[Sequence[NewEvent]], list[Receipt]]) -> None:
        self._insert = insert
        self._queue: SimpleQueue[_Batch | _Call | None] = SimpleQueue()
        self._lock, self._closed = Lock(), False
        self._thread = Thread(target=self._loop, name="duelrank-storage-writer", daemon=True)
        self._thread.start()

    def submit(self, events: Sequence[NewEvent]) -> Future[list[Receipt]]:
        """Queue a batch of events."""
        batch = _Batch(events)
        self._put(batch)
        return batch.future

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the writer's thread, and return its result."""
        call = _Call(function)
        self._put(call)
        result: T = call.future.result()
        return result

    def close(self) -> None:
        """Execute the queued writes, and end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _put(self, job: _Batch | _Call) -> None:
        with self._lock:  # otherwise a job could be queued after the None that ends the thread, and wait for ever
            if self._closed:
                raise StorageFailure("this store was closed; open it again")
            self._queue.put(job)

    def _loop(self) -> None:
        last = False
        while not last:
            group, last = self._next_group()
            jobs = [job for job in group if job.future.set_running_or_notify_cancel()]
            self._write([job for job in jobs if isinstance(job, _Batch)])
            for job in jobs:
                if isinstance(job, _Call):
                    _settle(job.future, job.function)

    def _next_group(self) -> tuple[list[_Batch | _Call], bool]:
        """Wait for a job and return it with all other queued ones, and whether the writer was closed."""
        group: list[_Batch | _Call] = []
        size = 0
        while len(group) < MAX_JOBS and size < MAX_BYTES:
            try:
                job = self._queue.get(block=not group)
            except Empty:
                break
            if job is None:
                return group, True
            group.append(job)
            size += job.size
        return group, False

    def _write(self, batches: Sequence[_Batch]) -> None:
        """Append the batches in one transaction; if it fails, write each batch separately, so that valid ones succeed."""
        if len(batches) == 1:
            _settle(batches[0].future, lambda: self._insert(batches[0].events))
        elif batches:
            try:
                receipts = self._insert([event for batch in batches for event in batch.events])
            except BaseException as error:
                self._write_separately(batches, error)
            else:
                start = 0
                for batch in batches:
                    batch.future.set_result(receipts[start : start + len(batch.events)])
                    start += len(batch.events)

    def _write_separately(self, batches: Sequence[_Batch], error: BaseException) -> None:
        for batch in batches:
            if isinstance(error, (StoreLocked, StoreUnavailable)):  # waiting again for each batch would not help
                batch.future.set_exception(type(error)(*error.args))
            else:
                self._write([batch])


def _settle(future: Future[T], function: Callable[[], T]) -> None:
    """Set the result of a function, or the exception that it raised, in a future; the thread survives every error."""
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
