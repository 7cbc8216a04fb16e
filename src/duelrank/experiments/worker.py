"""A worker process: born deaf to Ctrl-C, with one BLAS thread, gone when its parent is."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from traceback import format_exc

from duelrank.errors import DuelrankError
from duelrank.experiments.extensions import load_extensions
from duelrank.experiments.warming import run_warm
from duelrank.simulation import Record, RunSpec

__all__ = ["ONE_THREAD", "start_worker"]

# The runs are what is parallel: a BLAS that starts threads of its own in every worker only gets in their way.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def start_worker() -> tuple[Connection, BaseProcess]:
    """Start a process that answers each spec that is sent to it with a record, or with the error that there was."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    with _environment(ONE_THREAD), _interrupts_ignored():  # the worker inherits both
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
    theirs.close()  # so that the end of the worker is the end of the pipe
    return ours, process


def _work(connection: Connection) -> None:
    """Be a worker: run what comes through the pipe until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent alone answers it
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent is gone
        try:
            load_extensions()
        except DuelrankError as error:
            connection.send(error)
            return
        while True:
            _answer(connection, _outcome(connection.recv()))


def _outcome(spec: RunSpec) -> Record | Exception:
    try:
        return run_warm(spec)
    except Exception as error:
        error.add_note(f"in a worker process, at {spec.id}:\n{format_exc()}")
        return error


def _answer(connection: Connection, outcome: Record | Exception) -> None:
    try:
        connection.send(outcome)
    except OSError:
        raise
    except Exception as error:  # some errors do not travel; a silent death would have the run done again, in vain
        connection.send(DuelrankError(f"{type(outcome).__name__}: {outcome} (cannot be sent as it is: {error})"))


def _leave_with_parent() -> None:
    """End this worker when its parent is gone, however it went, and not only after a run that nobody waits for."""
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
    """Let processes that start now be born deaf to Ctrl-C, so that none dies with a traceback while it imports."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set this
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
