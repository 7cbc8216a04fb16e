"""Connections that are used by one thread at a time and kept for the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Generic, TypeVar

from duelrank.core.errors import StorageFailure

__all__ = ["Pool"]

C = TypeVar("C")


class Pool(Generic[C]):
    """At most so many connections, made when needed.

    Parameters
    ----------
    make, close
        Open a connection, and let go of it.
    usable
        Whether a connection may go on after an error.
    size
        Who comes when all are in use waits for one.
    """

    def __init__(
        self, make: Callable[[], C], close: Callable[[C], None], usable: Callable[[C], bool], size: int
    ) -> None:
        self._make, self._close, self._usable = make, close, usable
        self._free = BoundedSemaphore(size)
        self._lock, self._idle, self._closed = Lock(), list[C](), False

    @contextmanager
    def borrow(self) -> Iterator[C]:
        """Have a connection for the length of a block."""
        with self._free:
            connection = self._take()
            usable = True
            try:
                yield connection
            except BaseException:
                usable = self._usable(connection)
                raise
            finally:
                self._give(connection, usable)

    def clear(self) -> None:
        """Close the connections that nobody uses, such as after the server has gone."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._close(connection)

    def close(self) -> None:
        """Close all connections: those in use when they come back."""
        self._closed = True
        self.clear()

    def _take(self) -> C:
        with self._lock:
            if self._closed:
                raise StorageFailure("this store was closed; open it again")
            if self._idle:
                return self._idle.pop()
        return self._make()

    def _give(self, connection: C, usable: bool) -> None:
        with self._lock:
            if usable and not self._closed:
                self._idle.append(connection)
                return
        self._close(connection)
