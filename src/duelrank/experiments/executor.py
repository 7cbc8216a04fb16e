"""Specs in, records out as they finish: the one place that knows how runs are spread over processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing import get_context, parent_process

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
    warm_up(specs)
    pool = ProcessPoolExecutor(n_workers, get_context("spawn"), _start_worker)
    try:
        with (
            _environment(_ONE_THREAD),
            _interrupts_ignored(),
        ):  # the first submission starts all workers, which inherit both
            futures = [pool.submit(_run, spec) for spec in specs]
        for future in as_completed(futures):
            yield future.result()
    except BaseException as error:
        _terminate(pool)
        if isinstance(error, BrokenProcessPool):
            raise DuelrankError("a worker process died, most often because memory ran out; try fewer workers") from None
        raise
    pool.shutdown()


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent alone answers it
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    load_extensions()


def _leave_with_parent() -> None:
    """End this worker when its parent is gone, however it went: an idle worker would wait for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _terminate(pool: ProcessPoolExecutor) -> None:
    """End the workers in the middle of what they do: nobody wants their results any more."""
    for process in list(pool._processes.values()):  # `terminate_workers` exists from Python 3.14 on
        process.terminate()
    pool.shutdown(cancel_futures=True)


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
