"""What a worker of a cluster does with one run; nothing here may rely on the environment of whoever asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from duelrank.errors import DuelrankError
from duelrank.experiments.extensions import VARIABLE, load_extension
from duelrank.experiments.warming import run_warm
from duelrank.experiments.worker import ONE_THREAD
from duelrank.simulation import Record, RunSpec

__all__ = ["extensions_here", "run_remote"]

_loaded: dict[str, str] = {}


def extensions_here() -> dict[str, str]:
    """Return the user's own files of this process, each with a digest of what is in it."""
    return {path: _digest(path) for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))}


def run_remote(spec: bytes, extensions: dict[str, str], version: str) -> Record:
    """Run a spec on a worker and return its record.

    Parameters
    ----------
    spec
        As Dask serialises it.
    extensions
        The user's own files, at the same paths as where the spec was made and with the same content.
    version
        Of duelrank where the spec was made; another one here would give other results under the same name.
    """
    from distributed import get_worker
    from distributed.protocol import deserialize_bytes

    here = get_worker().address
    _check_version(version, here)
    _one_thread()
    try:
        for path, digest in extensions.items():
            _load(path, digest)
        task: RunSpec = deserialize_bytes(spec)
        return run_warm(task, _stop_if_cancelled())
    except Exception as error:
        error.add_note(f"on the worker {here}")
        raise


def _load(path: str, digest: str) -> None:
    """Load a file, unless it is another one than was meant: workers live long, and keep what they have loaded."""
    load_extension(path)
    if _loaded.setdefault(path, _digest(path)) != digest:
        raise DuelrankError(
            f"{path} is not the same here, or was changed after it had been loaded; restart the workers"
        )


def _digest(path: str) -> str:
    return sha256(Path(path).read_bytes()).hexdigest()


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
