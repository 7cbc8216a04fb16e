"""Local processes: several workers on this machine; one that dies is replaced and its run is repeated."""

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

#: How many workers may die with a run before it is given up.
TRIES = 3

#: Only the runs are parallel: a BLAS library that starts its own threads in every worker slows them all down.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_SECONDS_TO_EXIT = 5.0


@dataclass(frozen=True)
class LocalProcesses:
    """An executor of worker processes; kernels are compiled here and on disk before the workers start."""

    workers: int

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records as they finish; closing the generator ends the processes."""
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
    """The worker processes, the run that each of them does, and the runs that are still to be done."""

    # One pipe for each worker and nothing shared: with the queues of `concurrent.futures`, a worker that is killed in the
    # middle of a message leaves the parent waiting for the rest of it for ever.

    def __init__(self, size: int, specs: Sequence[RunSpec]) -> None:
        self.size = size
        self.waiting = deque(specs)
        self.processes: dict[Connection, BaseProcess] = {}
        self.running: dict[Connection, RunSpec] = {}
        self.deaths: Counter[RunSpec] = Counter()
        self.lost: dict[RunSpec, str] = {}

    def assign(self) -> bool:
        """Give every idle worker a run, and start workers while there are runs; False once there is nothing to wait for."""
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
        """Wait, and yield the records that have arrived; the run of a worker that has died goes to another worker."""
        for connection in cast(list[Connection], wait(self.running)):
            try:
                answer = connection.recv_bytes()
            except (EOFError, OSError):
                self._died(connection)
            else:
                yield unpack(answer, self.running.pop(connection))

    def terminate(self) -> None:
        """End the workers, idle or in the middle of a run."""
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
        process.kill()  # only matters if it has lost its pipe and not noticed
        process.join()
        spec = self.running.pop(connection)
        self.deaths[spec] += 1
        if self.deaths[spec] < TRIES:
            self.waiting.append(spec)  # behind the others: by then there may be enough memory
        else:
            self.lost[spec] = _cause(process.exitcode)


def _cause(exitcode: int | None) -> str:
    """Say how a process ended; only SIGKILL is a sign that memory ran out."""
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
    theirs.close()  # so that the pipe ends when the worker does
    return ours, process


def _work(connection: Connection) -> None:
    """Be a worker: perform the tasks that come through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent alone answers it
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            connection.send_bytes(perform(connection.recv_bytes(), f"worker process {os.getpid()}"))


def _exit_with_parent() -> None:
    """End this worker as soon as its parent is gone, also in the middle of a run."""
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
    """Let processes that start now ignore Ctrl-C from the beginning, so that none prints a traceback while it imports."""
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
    """Keep processes that start now from running the main script again: its classes are sent to them with each task.

    Otherwise a script without ``if __name__ == "__main__"`` would start its own runs again in every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
