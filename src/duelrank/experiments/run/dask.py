"""Runs specs on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from secrets import token_hex
from typing import Any

from duelrank.core.errors import DuelrankError, UnreachableScheduler
from duelrank.experiments.run.local import ONE_THREAD
from duelrank.experiments.run.scheduler import Scheduler, connect
from duelrank.experiments.run.task import given_up, pack, perform, unpack
from duelrank.simulation import Record, RunSpec

__all__ = ["DaskCluster", "run_task"]

_log = logging.getLogger(__name__)

#: Maximum number of submissions of a run. When a worker dies, the scheduler itself repeats its runs (three times by default), but
#: it counts the failure for all runs on that worker. Resubmitted runs come after all others, so few innocent runs fail with them.
SUBMISSIONS = 2
_LEAST_IN_FLIGHT = 16  # seconds between checks while no worker is connected


@dataclass(frozen=True)
class DaskCluster:
    """Runs specs on the current and future workers of a Dask scheduler; duelrank must be installed there.

    Parameters
    ----------
    scheduler
        The address of the scheduler, such as ``tcp://host:8786``, or a ``Client`` or cluster object, which stays open.
    """

    scheduler: Scheduler

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records as runs finish; closing the generator cancels queued runs and stops running ones."""
        if not specs:
            return
        with connect(self.scheduler) as client:
            runs = _Runs(client, specs)
            _log.info(_expectation(len(client.nthreads())))
            try:
                while runs.submit():
                    yield from runs.finished()
            finally:
                runs.cancel()
        if runs.lost:
            raise given_up(runs.lost)


def run_task(task: bytes) -> bytes:
    """Perform a task in the current Dask worker."""
    from distributed import get_worker

    worker = get_worker()
    if not worker.address.startswith("inproc://"):  # do not change settings of the user's own process
        _limit_threads()
    return perform(task, f"the worker {worker.address}", _stop_if_cancelled(worker))


class _Runs:
    """The runs on the cluster, and the waiting runs: only a limited number is on the cluster at any time."""

    def __init__(self, client: Any, specs: Sequence[RunSpec]) -> None:
        from distributed import as_completed

        self.client, self.address = client, client.scheduler.address
        self.waiting = deque(specs)
        self.futures: dict[str, tuple[Any, RunSpec]] = {}
        self.done = as_completed(loop=client.loop)
        self.submissions: Counter[RunSpec] = Counter()
        self.lost: dict[RunSpec, str] = {}
        self.priorities = count(0, -1)

    def submit(self) -> bool:
        """Keep two runs submitted per worker thread; return False when no runs are left."""
        with self._scheduler_answers():
            room = max(2 * sum(self.client.nthreads().values()), _LEAST_IN_FLIGHT)
            while self.waiting and len(self.futures) < room:
                self._submit(self.waiting.popleft())
        return bool(self.futures)

    def finished(self) -> Iterator[Record]:
        """Wait for results, and yield the records that have arrived."""
        for future in self.done.next_batch():
            _, spec = self.futures.pop(future.key)
            with self._scheduler_answers():
                error, answer = future.exception(), None
                if error is None:
                    answer = future.result()
                future.release()  # so that workers release results that have arrived
            if answer is not None:
                yield unpack(answer, spec)
            else:
                self._failed(spec, error)

    def cancel(self) -> None:
        """Cancel queued runs and stop running ones."""
        if self.futures:
            with suppress(Exception):  # the error that led to the cancellation is raised instead
                self.client.cancel([future for future, _ in self.futures.values()], force=True)

    def _submit(self, spec: RunSpec) -> None:
        key = f"duelrank-{spec.digest}-{token_hex(4)}"
        # The priority keeps the order: without it, tasks submitted at the same time start in any order.
        future = self.client.submit(_by_value(), pack(spec), key=key, pure=False, priority=next(self.priorities))
        self.submissions[spec] += 1
        self.futures[future.key] = future, spec
        self.done.add(future)

    def _failed(self, spec: RunSpec, error: Exception) -> None:
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            raise _explained(error)
        if self.submissions[spec] < SUBMISSIONS:
            self.waiting.append(spec)
        else:
            last = getattr(error.last_worker, "address", "the last worker")
            self.lost[spec] = f"see the log of {last}; the most common cause is lack of memory"

    @contextmanager
    def _scheduler_answers(self) -> Iterator[None]:
        """Raise `UnreachableScheduler` if the scheduler is lost; errors of a run do not pass here."""
        from concurrent.futures import CancelledError

        try:
            yield
        except (CancelledError, OSError, TimeoutError) as error:
            raise UnreachableScheduler(
                f"the scheduler at {self.address} stopped, or has dropped these runs; restart it, then repeat this command"
            ) from error


def _by_value() -> Callable[[bytes], bytes]:
    """Return a function that Dask sends by value, so that a worker without duelrank can report that."""

    def run(task: bytes) -> bytes:
        from duelrank.experiments.run.dask import run_task

        return run_task(task)

    return run


def _explained(error: Exception) -> Exception:
    """Return the error of a task unchanged, unless a worker lacks duelrank."""
    if isinstance(error, ImportError) and (error.name or "").startswith("duelrank"):
        return DuelrankError(
            f"a worker cannot load duelrank ({error}); install the same version of 'duelrank[cluster]' on all of them"
        )
    return error


def _expectation(n_workers: int) -> str:
    if not n_workers:
        return "the scheduler has no workers yet; the runs wait for the first one"
    return f"{n_workers} worker{'s' if n_workers > 1 else ''}; each compiles its kernels before its first run"


def _stop_if_cancelled(worker: Any) -> Callable[[int], None]:
    """Return a function that stops the current run after it was cancelled; Dask itself cannot stop a thread."""
    key = worker.get_current_task()

    def check(_done: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise DuelrankError("cancelled")

    return check


@cache
def _limit_threads() -> None:
    """Limit BLAS to one thread, even if numpy is already imported and ignores the environment variables."""
    os.environ.update(ONE_THREAD)
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
