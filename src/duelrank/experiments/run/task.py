"""Serialises runs for workers, and their records or errors for the way back.

Workers run code that this process sends them, so both sides trust each other; nothing here reads bytes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from io import BytesIO
from traceback import format_exception, format_exception_only
from typing import Any

import cloudpickle

from duelrank.core.errors import DuelrankError
from duelrank.experiments.run.extensions import loaded_extensions, use_extensions
from duelrank.experiments.run.warmup import named, run_warm
from duelrank.simulation import Record, RunSpec

__all__ = ["given_up", "pack", "perform", "unpack"]

# Cloudpickle can send a class by value, where pickle sends only its name: a worker does not have the __main__ of a notebook or
# script.


def pack(spec: RunSpec) -> bytes:
    """Return a run and the extensions of this process as bytes, or raise the error that prevents it."""
    from duelrank import __version__

    try:
        with named(spec):
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


def given_up(runs: Mapping[RunSpec, str]) -> DuelrankError:
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
