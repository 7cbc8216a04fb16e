"""Runs specs on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias

from duelrank.core.errors import DuelrankError, InvalidValue, MissingExtra, UnreachableScheduler
from duelrank.experiments.workers import ONE_THREAD, pack, perform, unpack, workers_died
from duelrank.simulation import Record, RunSpec

if TYPE_CHECKING:
    from distributed import Client
    from distributed.deploy import Cluster

#: An address, a client, or a cluster of any kind.
Scheduler: TypeAlias = "str | Client | Cluster"

_ADDRESS = re.compile(r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:.%]+\]):\d{1,5}/?")
_SECONDS = 8.0  # time limit of a connection

_log = logging.getLogger(__name__)

#: Maximum number of submissions of a run. When a worker dies, the scheduler itself repeats its runs (three times by default), but
#: it counts the failure for all runs on that worker. So the last submission of a run comes after all others, one at a time.
SUBMISSIONS = 3
_LEAST_SUBMITTED = 16  # runs, while few or no workers are connected


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
            raise workers_died(runs.lost)


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
        self.waiting, self.suspects = deque(specs), deque[RunSpec]()
        self.futures: dict[str, tuple[Any, RunSpec]] = {}
        self.done = as_completed(loop=client.loop)
        self.submissions: Counter[RunSpec] = Counter()
        self.lost: dict[RunSpec, str] = {}
        self.priorities = count(0, -1)

    def submit(self) -> bool:
        """Keep two runs submitted per worker thread; return False when no runs are left."""
        with self._scheduler_answers():
            room = max(2 * sum(self.client.nthreads().values()), _LEAST_SUBMITTED)
            while self.waiting and len(self.futures) < room:
                self._submit(self.waiting.popleft())
            if self.suspects and not self.futures:
                self._submit(self.suspects.popleft())
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
            (self.waiting if self.submissions[spec] < SUBMISSIONS - 1 else self.suspects).append(spec)
        else:
            last = getattr(error.last_worker, "address", "the last worker")
            self.lost[spec] = f"see the log of {last}; the most common cause is lack of memory"

    @contextmanager
    def _scheduler_answers(self) -> Iterator[None]:
        """Raise `UnreachableScheduler` if the connection to the scheduler is lost; errors of runs are handled elsewhere."""
        try:
            yield
        except (CancelledError, OSError, TimeoutError) as error:
            raise UnreachableScheduler(
                f"the scheduler at {self.address} stopped, or has dropped these runs; restart it, then repeat this command"
            ) from error


def _by_value() -> Callable[[bytes], bytes]:
    """Return a function that Dask sends by value, so that a worker without duelrank can report that."""

    def run(task: bytes) -> bytes:
        from duelrank.experiments.dask import run_task

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


@contextmanager
def connect(scheduler: Scheduler) -> Iterator[Any]:
    """Yield a client of a scheduler, or raise an error that explains why the connection failed; a given client stays open."""
    if isinstance(scheduler, str) and not _ADDRESS.fullmatch(scheduler):
        raise InvalidValue(f"the address of a scheduler must be like tcp://host:8786, got {scheduler!r}")
    distributed = _distributed()
    with _quiet(), _client(distributed, scheduler) as client:
        yield client


def _client(distributed: Any, scheduler: Scheduler) -> AbstractContextManager[Any]:
    if isinstance(scheduler, str):
        return _client_at(distributed, scheduler)
    if not isinstance(scheduler, (distributed.Client, distributed.deploy.Cluster)):
        raise InvalidValue(
            f"scheduler must be an address such as tcp://host:8786, a Dask Client or a Dask cluster, got {scheduler!r}"
        )
    if scheduler.asynchronous:
        raise InvalidValue(f"{scheduler!r} is asynchronous; make it with asynchronous=False")
    if scheduler.status in ("closed", "closing") or getattr(scheduler.status, "name", "") in ("closed", "closing"):
        raise UnreachableScheduler(f"{scheduler!r} is closed")
    if isinstance(scheduler, distributed.Client):
        return nullcontext(scheduler)
    client: AbstractContextManager[Any] = distributed.Client(scheduler, timeout=_SECONDS, set_as_default=False)
    return client


def _client_at(distributed: Any, address: str) -> AbstractContextManager[Any]:
    try:
        # Ask without a client first, because a client that gets no answer continues to log in the background.
        with ThreadPoolExecutor(1) as thread:  # this thread may already run an event loop, as in a notebook
            kind = thread.submit(asyncio.run, _ask(address)).result()
        if kind != "Scheduler":
            raise UnreachableScheduler(f"{address} is a Dask {kind.lower()}, not a scheduler")
        client: AbstractContextManager[Any] = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
    except DuelrankError:
        raise
    except Exception as error:  # a wrong address may lead to any kind of server
        raise UnreachableScheduler(
            f"no Dask scheduler answers at {address} ({_reason(error)}); check that `dask scheduler` is running, that "
            "this is the address that it shows, and that no firewall blocks the connection"
        ) from error
    return client


@contextmanager
def _quiet() -> Iterator[None]:
    """Prevent the client from logging tracebacks of errors that are raised here."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _ask(address: str) -> str:
    """Return the kind of Dask server at an address."""
    from distributed import Security, rpc

    arguments = Security().get_connection_args("client")
    async with rpc(address, connection_args=arguments, timeout=_SECONDS) as server:
        answer = await asyncio.wait_for(server.identity(), _SECONDS)
    return str(answer["type"])


def _reason(error: BaseException) -> str:
    """Return the message of the innermost cause that has one, such as "connection refused"."""
    message = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        message = str(cause).strip() or message
        cause = cause.__cause__
    return message.splitlines()[0]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtra("running on a scheduler needs Dask: pip install 'duelrank[cluster]'") from None
    return distributed
