"""Sends the lists of a log to a ranker in batches: over HTTP, or with a service that is started for this.

Only the latter needs the packages of the service.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from duelrank.core.errors import DuelrankError, StoreLocked
from duelrank.service.http.schema import BackfillCounts, Invalid, LoggedImpression, RankerInfo

if TYPE_CHECKING:
    from duelrank.service import Service
    from duelrank.storage import Storage

#: Maximum number of lists of one request, and of their bytes: by default a service accepts 8 MiB.
MOST_LISTS, MOST_BYTES = 500, 6 << 20
#: Seconds between two checks whether all lists are learned, and seconds to wait for the last version.
POLL_EVERY, PATIENCE = 0.1, 15.0
#: Number of reasons for refused lists to keep.
FIRST = 5
#: HTTP status of a request that is larger than the service accepts.
TOO_LARGE = 413


class BackfillTarget(NamedTuple):
    """A ranker that can learn from a log, a function that sends lists, and one that waits until they are learned."""

    info: RankerInfo
    send: Callable[[Sequence[LoggedImpression]], BackfillCounts]
    finish: Callable[[], None] = lambda: None


@dataclass
class BackfillResult:
    """Sends lists, and counts which ones the service accepted.

    Parameters
    ----------
    taken
        Number of accepted lists.
    there_already
        Number of lists that were sent before.
    refused
        Number of invalid lists.
    reasons
        Reasons for the first refused lists.
    """

    taken: int = 0
    there_already: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    def send_all(self, lists: Iterable[LoggedImpression], target: BackfillTarget) -> None:
        """Send lists in batches."""
        for batch in batches(lists):
            self._send(batch, target)

    def _send(self, batch: Sequence[LoggedImpression], target: BackfillTarget) -> None:
        """Send a batch, in halves if it is too large for the service; a single list that is too large is refused."""
        try:
            counts = target.send(batch)
        except DuelrankError as error:
            if getattr(error, "status", None) != TOO_LARGE:
                raise
            if len(batch) > 1:
                middle = len(batch) // 2
                self._send(batch[:middle], target)
                self._send(batch[middle:], target)
                return
            counts = BackfillCounts(invalid=[Invalid(0, batch[0].impression_id, str(error))])
        self.taken += counts.accepted
        self.there_already += counts.duplicate
        self.refused += len(counts.invalid)
        for each in counts.invalid[: FIRST - len(self.reasons)]:
            self.reasons.append(f"list {batch[each.index].impression_id!r}: {each.reason}")


def batches(lists: Iterable[LoggedImpression]) -> Iterator[list[LoggedImpression]]:
    """Yield lists in batches that fit into one request."""
    batch: list[LoggedImpression] = []
    size = 0
    for each in lists:
        more = len(msgspec.json.encode(each)) + 1
        if batch and (len(batch) >= MOST_LISTS or size + more > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += more
    if batch:
        yield batch


@contextmanager
def local_target(storage: Storage, ranker: str, read_only: bool) -> Iterator[BackfillTarget]:
    """Start a service on a store, and stop it at the end; `StoreLocked` is raised if another service uses the store."""
    from duelrank.service import Service, Settings

    newest: list[str] = []  # ids of the lists of the last batch

    def send(lists: Sequence[LoggedImpression]) -> BackfillCounts:
        newest[:] = [each.impression_id for each in lists]
        return runner.run(service.backfill(ranker, lists))

    with asyncio.Runner() as runner:
        # No retention: the settings of the real service may keep more.
        service = Service(storage, Settings(tidy_every=math.inf), read_only=read_only)
        try:
            runner.run(_start(service))
            service.check_backfill(ranker)
            yield BackfillTarget(service.ranker(ranker), send, lambda: runner.run(_learn(service, ranker, newest)))
        finally:
            runner.run(service.stop())


async def _start(service: Service) -> None:
    try:
        await service.start()
        await service.wait_ready()
    except StoreLocked as error:
        raise StoreLocked(
            f"{error}; or send the log to that service: duelrank backfill RANKER --url ADDRESS …"
        ) from None


async def _learn(service: Service, ranker: str, newest: Sequence[str]) -> None:
    """Wait for a version that includes the newest lists, but not for lists from which nothing can be learned."""
    from duelrank.service.log import LOGGED

    found = service.storage.log.find(ranker, LOGGED, newest)
    last = max((event.number for event in found.values()), default=0)
    waited = 0.0
    while waited < PATIENCE and service.versions(ranker)[-1].number < last:
        await asyncio.sleep(POLL_EVERY)
        waited = 0.0 if service.lag() else waited + POLL_EVERY
