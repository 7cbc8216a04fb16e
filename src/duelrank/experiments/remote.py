"""What a worker of a cluster does with one run; nothing here may rely on the environment of whoever asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from duelrank.errors import DuelrankError
from duelrank.experiments.extensions import load_extension
from duelrank.experiments.warming import run_warm
from duelrank.experiments.worker import ONE_THREAD
from duelrank.simulation import Record, RunSpec

__all__ = ["run_remote"]


def run_remote(spec: bytes, extensions: str, version: str) -> Record:
    """Run a spec on a worker and return its record.

    Parameters
    ----------
    spec
        As Dask serialises it.
    extensions
        The user's own files, at the same paths as where the spec was made.
    version
        Of duelrank where the spec was made; another one here would give other results under the same name.
    """
    from distributed import get_worker
    from distributed.protocol import deserialize_bytes

    here = get_worker().address
    _check_version(version, here)
    _one_thread()
    try:
        for path in filter(None, extensions.split(os.pathsep)):
            load_extension(path)
        task: RunSpec = deserialize_bytes(spec)
        return run_warm(task, _stop_if_cancelled())
    except Exception as error:
        error.add_note(f"on the worker {here}")
        raise


def _check_version(wanted: str, here: str) -> None:
    from duelrank import __version__

    if __version__ != wanted:
        raise DuelrankError(
            f"the worker {here} has duelrank {__version__}, but {wanted} asked it to run; install the same on all"
        )


def _stop_if_cancelled() -> Callable[[int], None]:
    """Return what ends the current run once nobody waits for it; Dask itself cannot stop a thread."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def check(_done: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise DuelrankError("cancelled")

    return check


@cache
def _one_thread() -> None:
    """Keep BLAS from starting threads of its own, also where numpy was there first and reads no environment any more."""
    os.environ.update(ONE_THREAD)
    with suppress(ImportError):
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
