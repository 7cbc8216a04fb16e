"""Runs specs in worker processes on this machine, and defines the tasks that all kinds of workers perform.

A task is a run, serialised for a worker; the worker returns the record of the run or its error. Workers run code that this process
sends them, so both sides trust each other; nothing here reads bytes from elsewhere. A worker that dies is replaced and its run is
repeated.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, fields, replace
from functools import lru_cache
from io import BytesIO
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exception, format_exception_only
from types import ModuleType
from typing import Any, cast

import cloudpickle

from duelrank.algorithms import Algorithm
from duelrank.core.errors import DuelrankError
from duelrank.core.extensions import loaded_extensions, use_extensions
from duelrank.core.registry import canonical
from duelrank.simulation import Record, RunSpec, simulate

#: Number of workers that may die during a run before the run fails.
TRIES = 3

#: Only the runs are parallel: BLAS threads in every worker would slow all of them down.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_SECONDS_TO_EXIT = 5.0

_warm: set[object] = set()  # kernels that are compiled in this process


def warm_up(specs: Iterable[RunSpec]) -> None:
    """Compile the kernels of the specs, or load them from disk; the logger ``duelrank.core.compiling`` announces compilations."""
    for spec in specs:
        with named_run(spec):
            _prepare(spec)


def run_warm(spec: RunSpec, progress: Callable[[int], None] | None = None) -> Record:
    """Run a spec, after its kernels were compiled once in this process; the record is without the learner, which may be large."""
    _prepare(spec)
    return replace(simulate(spec, progress=progress), learner=None)


@contextmanager
def named_run(spec: RunSpec) -> Iterator[None]:
    """Add the name of the run to any error that is raised here."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the run {spec.id}")
        raise


def _prepare(spec: RunSpec) -> None:
    key = (_without_numbers(spec.algorithm), type(spec.user), type(spec.metric))
    if key not in _warm:
        simulate(replace(spec, impressions=30))
        _warm.add(key)


@lru_cache(maxsize=1024)
def _without_numbers(algorithm: Algorithm) -> str:
    """Return a recipe as text without its numbers, except zeros: recipes that differ only in these call the same kernels."""
    return re.sub(r"\b\d[\d.]*(e[+-]?\d+)?", lambda number: "0" if not float(number[0]) else "1", canonical(algorithm))


# Cloudpickle can send a class by value, where pickle sends only its name: a worker does not have the __main__ of a notebook or
# script.


def pack(spec: RunSpec) -> bytes:
    """Return a run and the extensions of this process as bytes, or raise the error that prevents it."""
    from duelrank import __version__

    try:
        with named_run(spec):
            return _dumps((__version__, loaded_extensions(), _dumps(spec)))
    except Exception as error:
        error.add_note("it cannot be sent to a worker; workers=1 runs it in this process")
        raise


def perform(task: bytes, worker: str, progress: Callable[[int], None] | None = None) -> bytes:
    """Run a task in a worker, and return its record or exception as bytes; ``worker`` names it in messages."""
    try:
        version, extensions, spec = cloudpickle.loads(task)
        _check_version(version, worker)
        use_extensions(extensions)
        with _loading():
            loaded: RunSpec = cloudpickle.loads(spec)
        return _dumps(_content(run_warm(loaded, progress)))
    except BaseException as error:  # SystemExit too: otherwise the worker would end and seem to be killed
        return _dumps(_Failure.of(error, worker))


def unpack(answer: bytes, spec: RunSpec) -> Record:
    """Return the record in a worker's answer, or raise the error in it."""
    content = cloudpickle.loads(answer)
    if isinstance(content, _Failure):
        raise content.as_error(spec)
    return Record(spec, **content)


def workers_died(runs: Mapping[RunSpec, str]) -> DuelrankError:
    """Return the error for runs whose workers died repeatedly, each with the cause of the last failure."""
    shown = [f"{spec.id} ({spec.digest}): {cause}" for spec, cause in list(runs.items())[:3]]
    more = [f"{len(runs) - 3} more"] if len(runs) > 3 else []
    return DuelrankError(
        f"every worker that was given {'one of these runs' if len(runs) > 1 else 'this run'} died: "
        f"{'; '.join(shown + more)}. All other runs are done"
    )


@dataclass(frozen=True)
class _Failure:
    """An exception in a worker; the exception object is included only if it can be sent."""

    error: bytes | None
    summary: str
    traceback: str
    worker: str

    @classmethod
    def of(cls, error: BaseException, worker: str) -> _Failure:
        summary = "".join(format_exception_only(type(error), error)).strip()
        return cls(_portable(error), summary, "".join(format_exception(error)), worker)

    def as_error(self, spec: RunSpec) -> Exception:
        error: Exception = cloudpickle.loads(self.error) if self.error is not None else DuelrankError(self.summary)
        error.add_note(f"in the run {spec.id}, on {self.worker}:\n{self.traceback}")
        return error


def _portable(error: BaseException) -> bytes | None:
    """Return an exception as bytes, or None if it does not survive serialisation or would end the program."""
    if not isinstance(error, Exception):
        return None
    try:
        content = _dumps(error)
        back = cloudpickle.loads(content)
    except Exception:
        return None
    return content if type(back) is type(error) and str(back) == str(error) else None


def _content(record: Record) -> dict[str, Any]:
    """Return all fields except the spec, which the caller already has."""
    return {item.name: getattr(record, item.name) for item in fields(record) if item.name != "spec"}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Sends the "no default" marker of dataclass fields by name, because dataclasses compare it by identity."""

    def reducer_override(self, value: Any) -> Any:
        return "MISSING" if value is MISSING else super().reducer_override(value)


def _dumps(value: Any) -> bytes:
    buffer = BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def _check_version(wanted: str, worker: str) -> None:
    from duelrank import __version__

    if __version__ != wanted:
        raise DuelrankError(
            f"{worker} has duelrank {__version__}, but the run needs {wanted}; install the same version on all machines"
        )


@contextmanager
def _loading() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(
            "the worker cannot load the code of this run: install its module there, or put the class into a file and "
            "give that to load_extension (or --load), which sends it to every worker"
        )
        raise


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
            raise workers_died(workers.lost)


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
