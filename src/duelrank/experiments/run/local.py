"""Runs specs in worker processes on this machine; a worker that dies is replaced and its run is repeated."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import cast

from duelrank.experiments.run.task import given_up, pack, perform, unpack
from duelrank.experiments.run.warmup import warm_up
from duelrank.simulation import Record, RunSpec

__all__ = ["ONE_THREAD", "TRIES", "LocalProcesses"]

#: Number of workers that may die during a run before the run fails.
TRIES = 3

#: Only the runs are parallel: BLAS threads in every worker would slow all of them down.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_SECONDS_TO_EXIT = 5.0


@dataclass(frozen=True)
class LocalProcesses:
    """Runs specs in worker processes; this process compiles the kernels to the disk cache before the workers start."""

    workers: int

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records as runs finish; closing the generator ends the processes."""
        warm_up(specs)
        workers = _Workers(self.workers, specs)
        try:
            while workers.assign():
                yield from workers.finished()
        finally:
            workers.terminate()
        if workers.lost:
            raise given_up(workers.lost)


class _Workers:
    """The worker processes, the current run of each, and the waiting runs."""

    # Each worker has its own pipe: with the shared queues of `concurrent.futures`, the parent waits for ever if a worker is
    # killed in the middle of a message.

    def __init__(self, size: int, specs: Sequence[RunSpec]) -> None:
        self.size = size
        self.waiting = deque(specs)
        self.processes: dict[Connection, BaseProcess] = {}
        self.running: dict[Connection, RunSpec] = {}
        self.deaths: Counter[RunSpec] = Counter()
        self.lost: dict[RunSpec, str] = {}

    def assign(self) -> bool:
        """Give every idle worker a run, and start workers while there are runs; return False when no runs are left."""
        while self.waiting and len(self.running) < self.size:
            task = pack(self.waiting[0])
            connection = self._idle()
            self.running[connection] = self.waiting.popleft()
            try:
                connection.send_bytes(task)
            except OSError:
                self._died(connection)
        return bool(self.running)

    def finished(self) -> Generator[Record, None, None]:
        """Wait for results, and yield the records that have arrived; the run of a dead worker goes to another worker."""
        for connection in cast(list[Connection], wait(self.running)):
            try:
                answer = connection.recv_bytes()
            except (EOFError, OSError):
                self._died(connection)
            else:
                yield unpack(answer, self.running.pop(connection))

    def terminate(self) -> None:
        """End all workers, even in the middle of a run."""
        for process in self.processes.values():
            process.terminate()
        for connection, process in self.processes.items():
            process.join()
            connection.close()

    def _idle(self) -> Connection:
        for connection in self.processes:
            if connection not in self.running:
                return connection
        connection, process = _start_worker()
        self.processes[connection] = process
        return connection

    def _died(self, connection: Connection) -> None:
        process = self.processes.pop(connection)
        connection.close()
        process.join(_SECONDS_TO_EXIT)
        process.kill()  # only needed if the worker has not noticed that its pipe is closed
        process.join()
        spec = self.running.pop(connection)
        self.deaths[spec] += 1
        if self.deaths[spec] < TRIES:
            self.waiting.append(spec)  # after all others: there may be enough memory then
        else:
            self.lost[spec] = _cause(process.exitcode)


def _cause(exitcode: int | None) -> str:
    """Describe how a process ended; only SIGKILL suggests that memory ran out."""
    if exitcode == -signal.SIGKILL:
        return "killed by SIGKILL, most often because memory ran out: use fewer workers, or see the system's log"
    if exitcode is not None and exitcode < 0:
        return f"killed by {signal.Signals(-exitcode).name}, see its messages above"
    return f"the process ended with exit code {exitcode}, see its messages above"


def _start_worker() -> tuple[Connection, BaseProcess]:
    """Start a process that answers each task that is sent to it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    with _environment(ONE_THREAD), _interrupts_ignored(), _main_hidden():  # the worker inherits all three
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
    theirs.close()  # so that the pipe closes when the worker ends
    return ours, process


def _work(connection: Connection) -> None:
    """Run as a worker: perform the tasks from the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; only the parent handles it
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            connection.send_bytes(perform(connection.recv_bytes(), f"worker process {os.getpid()}"))


def _exit_with_parent() -> None:
    """End this worker as soon as its parent has ended, even in the middle of a run."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Make processes that start now ignore Ctrl-C from the beginning, so that none prints a traceback during its imports."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set this
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Prevent processes that start now from running the main script again: each task contains the classes it needs.

    Otherwise a script without ``if __name__ == "__main__"`` would start its own runs again in every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
