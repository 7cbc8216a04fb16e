"""How long the disk lasts: the size of the store, and how fast it grows."""

from __future__ import annotations

import logging
from collections import deque

from duelrank.serving.clock import Clock
from duelrank.serving.ranker.rankers import Rankers
from duelrank.storage import Storage

__all__ = ["Capacity"]

logger = logging.getLogger("duelrank.serving")

# Seconds over which growth is measured; below so many days left, or so small a share of free space, there is a warning.
WINDOW, FEW_DAYS, FEW = 3600.0, 2.0, 0.05
# Seconds before which growth says nothing: features of the first minutes are not dropped yet.
LEAST = 600.0
# Seconds between two warnings.
QUIET = 3600.0


class Capacity:
    """Looks at the size of a store again and again, and warns before its disk is full.

    Parameters
    ----------
    storage, clock, rankers
        Of the service.
    """

    def __init__(self, storage: Storage, clock: Clock, rankers: Rankers) -> None:
        self._storage, self._clock, self._rankers = storage, clock, rankers
        self._sizes: deque[tuple[float, int]] = deque()
        self._warned = -QUIET

    def look(self) -> None:
        """Measure, tell, and warn where it is time."""
        now, usage = self._clock.monotonic(), self._storage.usage()
        self._sizes.append((now, usage.bytes))
        while now - self._sizes[0][0] > WINDOW:
            self._sizes.popleft()
        days = None if usage.free is None else self._days_left(usage.free)
        self._rankers.observer.store(usage.bytes, usage.free, days)
        if usage.free is None or now - self._warned < QUIET:
            return
        if usage.free < FEW * (usage.bytes + usage.free) or (days is not None and days < FEW_DAYS):
            lasts = "" if days is None else f", which last {days:.1f} days at the present rate"
            logger.warning("the store's disk has %.1f GB left%s", usage.free / 1e9, lasts)
            self._warned = now

    def _days_left(self, free: int) -> float | None:
        """Return how many days the free space lasts at the rate of the last hour; None where it does not shrink."""
        (then, before), (now, size) = self._sizes[0], self._sizes[-1]
        if now - then < LEAST or size <= before:
            return None
        return free / ((size - before) / (now - then)) / 86400.0
