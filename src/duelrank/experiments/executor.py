"""Specs in, records out as they finish: the one place that knows how runs are spread over processes."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exc
from typing import cast

from duelrank.errors import DuelrankError, InvalidValue
from duelrank.experiments.extensions import load_extensions
from duelrank.simulation import Record, RunSpec, simulate

__all__ = ["run_all", "usable_cpus", "warm_up"]

Progress = Callable[[int, int], None]

# The runs are what is parallel: a BLAS that starts threads of its own in every worker only gets in their way.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

_warm: set[object] = set()


def run_all(specs: Sequence[RunSpec], workers: int | None = None, progress: Progress | None = None) -> Iterator[Record]:
    """Run every spec and yield the records in the order in which they finish, which is any.

    An error in one run stops all others and is raised here as itself.

    Parameters
    ----------
    workers
        How many processes; all usable processors by default, and never more than there are specs. One: no new process.
    progress
        Called with how many runs are done, and how many there are.
    """
    tell = progress or (lambda done, total: None)
    n_workers = _n_workers(workers, len(specs))
    tell(0, len(specs))
    with closing(_here(specs) if n_workers == 1 else _in_processes(specs, n_workers)) as records:
        for done, record in enumerate(records, start=1):
            tell(done, len(specs))
            yield record


def warm_up(specs: Iterable[RunSpec]) -> None:
    """Compile, or load from disk, the kernels of the specs: no run is timed with it, no two workers do it at once."""
    for spec in specs:
        key = (spec.algorithm, type(spec.user), type(spec.metric))
        if key not in _warm:
            simulate(replace(spec, impressions=30))
            _warm.add(key)


def usable_cpus() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _n_workers(wanted: int | None, n_specs: int) -> int:
    if wanted is not None and wanted < 1:
        raise InvalidValue(f"workers must be a whole number from 1 up, got {wanted}")
    return max(1, min(wanted or usable_cpus(), n_specs))


def _run(spec: RunSpec) -> Record:
    warm_up([spec])
    return simulate(spec)


def _here(specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
    yield from map(_run, specs)


def _in_processes(specs: Sequence[RunSpec], n_workers: int) -> Generator[Record, None, None]:
    # One pipe to each worker and nothing shared: with the queues of `concurrent.futures`, a worker that is ended in the
    # middle of a message leaves the parent waiting for the rest of it, for ever.
    warm_up(specs)
    waiting = deque(specs)
    workers = _start_workers(n_workers)
    try:
        for connection in workers:
            _send(connection, waiting.popleft())
        busy = set(workers)
        while busy:
            for connection in cast(list[Connection], wait(busy)):
                record = _receive(connection)
                if waiting:
                    _send(connection, waiting.popleft())
                else:
                    busy.remove(connection)
                yield record
    finally:
        _stop(workers)


def _start_workers(n_workers: int) -> dict[Connection, BaseProcess]:
    context = get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    with _environment(_ONE_THREAD), _interrupts_ignored():  # the workers inherit both
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), daemon=True)
            process.start()
            theirs.close()  # so that the end of the worker is the end of the pipe
            workers[ours] = process
    return workers


def _send(connection: Connection, spec: RunSpec) -> None:
    with _alive():
        connection.send(spec)


def _receive(connection: Connection) -> Record:
    with _alive():
        outcome: Record | Exception = connection.recv()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _stop(workers: dict[Connection, BaseProcess]) -> None:
    """End the workers, in the middle of a run or idle: nobody wants anything from them any more."""
    for process in workers.values():
        process.terminate()
    for connection, process in workers.items():
        process.join()
        connection.close()


def _work(connection: Connection) -> None:
    """Be a worker: run what comes through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent alone answers it
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    load_extensions()
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            connection.send(_outcome(connection.recv()))


def _outcome(spec: RunSpec) -> Record | Exception:
    try:
        return _run(spec)
    except Exception as error:
        error.add_note(f"in a worker process, at {spec.id}:\n{format_exc()}")
        return error


def _leave_with_parent() -> None:
    """End this worker when its parent is gone, however it went, and not only after a run that nobody waits for."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError):
        raise DuelrankError("a worker process died, most often because memory ran out; try fewer workers") from None


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
    """Let processes that start now be born deaf to Ctrl-C, so that none dies with a traceback while it imports."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set this
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
