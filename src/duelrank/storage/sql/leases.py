"""Leases that this process holds in a store, whatever it is that holds them."""

from __future__ import annotations

from abc import abstractmethod
from threading import Lock

from duelrank.storage.base import Lease, Leases
from duelrank.storage.values import checked_text

__all__ = ["HeldLeases"]


class HeldLeases(Leases):
    """Gives out each name once, and releases all of them in the end."""

    def __init__(self) -> None:
        self._held, self._lock = dict[str, Lease](), Lock()

    @abstractmethod
    def _take(self, name: str) -> Lease | None:
        """Return a lease on a name that this object does not hold, or None where another process does."""

    def acquire(self, name: str) -> Lease | None:
        """Return a lease on a name, or None where it is held."""
        checked_text("name", name)
        with self._lock:
            before = self._held.get(name)
            if before is not None:
                if before.held():
                    return None
                before.release()
            lease = self._take(name)
            if lease is not None:
                self._held[name] = lease
            return lease

    def close(self) -> None:
        """Release all leases."""
        with self._lock:
            for lease in self._held.values():
                lease.release()
