"""Runs on the workers of a Dask scheduler: other processes, other machines, whatever there is behind one address."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from secrets import token_hex
from typing import Any

from duelrank.errors import DuelrankError, UnreachableScheduler
from duelrank.experiments.connecting import connect
from duelrank.experiments.pool import given_up
from duelrank.experiments.remote import extensions_here
from duelrank.simulation import Record, RunSpec

__all__ = ["Cluster"]

#: How often a run is submitted. A scheduler itself does it again three times when a worker dies, but it also blames the
#: runs that happened to be on the same worker: the second time they are behind all others, and few are left to blame.
SUBMISSIONS = 2
_LEAST_IN_FLIGHT = 16  # while no worker has come yet


@dataclass(frozen=True)
class Cluster:
    """An executor of whatever workers a scheduler has, now or later; duelrank must be installed there.

    Parameters
    ----------
    address
        Of the scheduler, such as ``tcp://host:8786``.
    """

    address: str

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records as they finish; closing the generator cancels what is queued and stops what is running."""
        if not specs:
            return
        with connect(self.address) as client:
            jobs = _Jobs(client, self.address, specs)
            try:
                while jobs.submit():
                    yield from jobs.finished()
            finally:
                jobs.cancel()
        if jobs.lost:
            raise given_up(jobs.lost)


class _Jobs:
    """What is on the cluster, and what is still to be sent there: not all at once, however many runs there are."""

    def __init__(self, client: Any, address: str, specs: Sequence[RunSpec]) -> None:
        from distributed import as_completed

        self.client, self.address = client, address
        self.waiting = deque(specs)
        self.futures: dict[str, tuple[Any, RunSpec]] = {}
        self.done = as_completed(loop=client.loop)
        self.submissions: Counter[RunSpec] = Counter()
        self.lost: list[RunSpec] = []
        self.priorities = count(0, -1)
        self.extensions = extensions_here()

    def submit(self) -> bool:
        """Keep every worker and the place behind it filled; False once there is nothing to wait for."""
        with self._scheduler_there():
            room = max(2 * sum(self.client.nthreads().values()), _LEAST_IN_FLIGHT)
            while self.waiting and len(self.futures) < room:
                self._submit(self.waiting.popleft())
        return bool(self.futures)

    def finished(self) -> Iterator[Record]:
        """Wait, and yield what has come back."""
        for future in self.done.next_batch():
            _, spec = self.futures.pop(future.key)
            with self._scheduler_there():
                error, record = future.exception(), None
                if error is None:
                    record = future.result()
                future.release()  # so that no worker keeps what is here already
            if record is not None:
                yield record
            else:
                self._failed(spec, error)

    def cancel(self) -> None:
        """Take back what is queued, and have stopped what is running."""
        if self.futures:
            with suppress(Exception):  # of no interest beside the reason why all is cancelled
                self.client.cancel([future for future, _ in self.futures.values()], force=True)

    def _submit(self, spec: RunSpec) -> None:
        from distributed.protocol import serialize_bytes

        from duelrank import __version__

        # As bytes, since both scheduler and worker read what they are sent before anything of ours runs there, and
        # what they cannot read, such as a part in a user's own file, they answer with silence.
        what = serialize_bytes(spec), self.extensions, __version__
        key = f"duelrank-{spec.digest}-{token_hex(4)}"
        # In order, by a priority: else what is sent within a moment starts in any.
        future = self.client.submit(_far(), *what, key=key, pure=False, priority=next(self.priorities))
        self.submissions[spec] += 1
        self.futures[future.key] = future, spec
        self.done.add(future)

    def _failed(self, spec: RunSpec, error: Exception) -> None:
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            raise _in_our_words(error)
        if self.submissions[spec] < SUBMISSIONS:
            self.waiting.append(spec)
        else:
            self.lost.append(spec)

    @contextmanager
    def _scheduler_there(self) -> Iterator[None]:
        """Tell the loss of the scheduler from errors of a run, which do not pass here."""
        from concurrent.futures import CancelledError

        try:
            yield
        except (CancelledError, OSError, TimeoutError) as error:
            raise UnreachableScheduler(
                f"the scheduler at {self.address} is gone, or has dropped these runs; start it again, then this command"
            ) from error


def _far() -> Callable[[bytes, dict[str, str], str], Record]:
    """Return a function that travels as its own code, for the same reason: so that what is missing there is told."""

    def run(spec: bytes, extensions: dict[str, str], version: str) -> Record:
        from duelrank.experiments.remote import run_remote

        return run_remote(spec, extensions, version)

    return run


def _in_our_words(error: Exception) -> Exception:
    """Return the error of a run as it is, unless it is that there is no duelrank to run it."""
    if isinstance(error, ImportError) and (error.name or "").startswith("duelrank"):
        return DuelrankError(
            f"a worker cannot load duelrank ({error}); install the same version of 'duelrank[cluster]' on all of them"
        )
    return error
