"""Several processes that serve from one store: a supervisor starts them, restarts one that dies, and stops them all."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from duelrank.core.errors import StorageFailure
from duelrank.serving.http.metrics import SHARED

__all__ = ["FATAL", "Supervisor", "Work"]

FATAL = 2
"""The exit status of a worker that could never work, such as on a damaged store: it is not started again."""
PAUSES = (1.0, 30.0)
"""Seconds until a worker is started again: the first time, and at most; twice as long each time it dies young."""
YOUNG = 60.0

log = logging.getLogger(__name__)


class Work(Protocol):
    """What a worker does: serve on a socket, and send the names of the rankers when it is ready. It must be picklable."""

    def __call__(self, listening: socket.socket, ready: Connection) -> None:
        """Serve until SIGTERM."""


@dataclass
class _Worker:
    number: int
    process: BaseProcess | None = None
    ready: Connection | None = None
    started: float = 0.0
    served: bool = False  # whether it was ready: one that is stopped before has nothing to save
    pause: float = PAUSES[0]
    due: float | None = None  # when to start it again, by the monotonic clock
    sentinels: list[Any] = field(default_factory=list)


class Supervisor:
    """Keeps a number of workers running on one listening socket, until SIGINT or SIGTERM.

    Parameters
    ----------
    work
        What each worker does.
    listening
        The socket that all of them accept connections from.
    count
        How many.
    when_ready
        Called once, with the names of the rankers, when the first worker is ready.
    """

    def __init__(
        self, work: Work, listening: socket.socket, count: int, when_ready: Callable[[list[str]], None]
    ) -> None:
        self._work, self._listening, self._when_ready = work, listening, when_ready
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._context = multiprocessing.get_context("spawn")
        self._stopping = False
        self._failed = False
        self._unsaved: list[str] = []
        self._told = False

    def run(self) -> None:
        """Start the workers and look after them; returns when all have ended."""
        with _wakeup() as (woken, signals), _shared_metrics():
            for worker in self._workers:
                self._start(worker)
            while self._alive() or not self._stopping:
                self._wait(woken)
                if signals and not self._stopping:
                    self._stop(f"signal {signal.Signals(signals[0]).name}")
                for worker in self._workers:
                    self._look_after(worker)
        if self._failed:
            raise StorageFailure("a worker cannot serve; the log says why")
        if self._unsaved:
            raise StorageFailure(
                f"stopped, but {' and '.join(self._unsaved)}: what was learned may not all be saved; the next start learns the "
                "rest again from the event log"
            )

    def _alive(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.process is not None]

    def _start(self, worker: _Worker) -> None:
        receiving, sending = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=self._work, args=(self._listening, sending), name=f"worker {worker.number}"
        )
        process.start()
        sending.close()
        worker.process, worker.ready, worker.due, worker.started = process, receiving, None, time.monotonic()
        worker.served = False
        log.info("worker %d: process %s", worker.number, process.pid)

    def _wait(self, woken: socket.socket) -> None:
        """Sleep until a worker is ready or ends, a signal comes, or it is time to start one again."""
        events: list[Any] = [woken]
        for worker in self._alive():
            assert worker.process is not None
            events.append(worker.process.sentinel)
            events += [worker.ready] if worker.ready is not None else []
        due = [worker.due for worker in self._workers if worker.due is not None]
        wait(events, max(0.0, min(due) - time.monotonic()) if due else None)
        with suppress(BlockingIOError):
            woken.recv(4096)

    def _look_after(self, worker: _Worker) -> None:
        self._hear(worker)
        if worker.process is not None and worker.process.exitcode is not None:
            self._ended(worker, worker.process.exitcode)
        if worker.due is not None and time.monotonic() >= worker.due and not self._stopping:
            self._start(worker)

    def _hear(self, worker: _Worker) -> None:
        """Take a worker's word that it is ready; the first one's is passed on."""
        if worker.ready is None or not worker.ready.poll():
            return
        with suppress(EOFError):
            names: list[str] = worker.ready.recv()
            worker.served = True
            log.info("worker %d is ready", worker.number)
            if not self._told:
                self._told = True
                self._when_ready(names)
        worker.ready.close()
        worker.ready = None

    def _ended(self, worker: _Worker, status: int) -> None:
        process, worker.process = worker.process, None
        assert process is not None
        _forget_gauges(process.pid)
        if self._stopping:
            if worker.served and status != 0:
                self._unsaved.append(f"worker {worker.number} ended with status {status}")
            return
        if status == FATAL:
            self._failed = True
            self._stop(f"worker {worker.number} cannot serve")
            return
        lived = time.monotonic() - worker.started
        worker.pause = min(2.0 * worker.pause, PAUSES[1]) if lived < YOUNG else PAUSES[0]
        worker.due = time.monotonic() + worker.pause
        log.error(
            "worker %d (process %s) ended with status %d; it is started again in %g s",
            worker.number, process.pid, status, worker.pause,
        )  # fmt: skip

    def _stop(self, why: str) -> None:
        """Tell all workers to finish; they are waited for."""
        self._stopping = True
        log.info("stopping: %s", why)
        for worker in self._alive():
            assert worker.process is not None
            worker.process.terminate()


@contextmanager
def _wakeup() -> Iterator[tuple[socket.socket, list[int]]]:
    """Yield a socket that becomes readable when SIGINT or SIGTERM comes, and the list of those that came."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    came: list[int] = []
    names = (signal.SIGINT, signal.SIGTERM)
    handlers = {name: signal.signal(name, lambda number, frame: came.append(number)) for name in names}
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield reading, came
    finally:
        signal.set_wakeup_fd(before)
        for name, handler in handlers.items():
            signal.signal(name, handler)
        reading.close()
        writing.close()


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Have the workers keep their numbers in one folder, so that each of them can answer for all."""
    with tempfile.TemporaryDirectory(prefix="duelrank-metrics-") as folder:
        before = os.environ.get(SHARED)
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            os.environ.pop(SHARED)
            if before is not None:
                os.environ[SHARED] = before


def _forget_gauges(process: int | None) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process, os.environ[SHARED])  # type: ignore[no-untyped-call]
