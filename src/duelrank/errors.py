"""Every error that duelrank raises on purpose: one root, and each child is also the builtin that it resembles."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

__all__ = [
    "Conflict",
    "DataFormatError",
    "DuelrankError",
    "InvalidRecipe",
    "InvalidValue",
    "LimitExceeded",
    "MissingData",
    "MissingExtra",
    "NotReady",
    "ShapeMismatch",
    "StorageFailure",
    "StoreCorrupt",
    "StoreFull",
    "StoreLocked",
    "StoreTooNew",
    "StoreUnavailable",
    "UnknownName",
    "UnreachableScheduler",
]


class DuelrankError(Exception):
    """The root: `except DuelrankError` catches what duelrank raises on purpose, and nothing else."""


class InvalidValue(DuelrankError, ValueError):
    """A value outside of what is allowed, such as a NaN feature or a negative label."""


class ShapeMismatch(DuelrankError, ValueError):
    """Arrays whose shapes do not fit each other."""


class InvalidRecipe(DuelrankError, ValueError):
    """A recipe string or parameter that is malformed, unknown, ambiguous or of the wrong type."""


class UnknownName(DuelrankError, LookupError):
    """A name that nothing is registered under; the message lists the near ones."""

    @classmethod
    def among(cls, what: str, name: str, known: Iterable[str]) -> UnknownName:
        """Build the error for ``name``, suggesting the nearest of the ``known`` names."""
        names = sorted(known)
        lower = {each.lower(): each for each in names}
        same = [lower[name.lower()]] if name.lower() in lower else []
        near = same or [lower[each] for each in get_close_matches(name.lower(), lower, n=3, cutoff=0.5)]
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        return cls(f"no {what} is called {name!r}; {hint}known: {', '.join(names) or 'none'}")


class DataFormatError(DuelrankError, ValueError):
    """Data that cannot be read: a bad line, a truncated archive, an unsupported format."""


class MissingData(DuelrankError, FileNotFoundError):
    """A data set that is known but not installed here, or a path that does not exist."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageFailure(DuelrankError, OSError):
    """Something could not be written or read back; nothing half-written was left behind."""

    #: Whether the very same call may succeed later, without anybody changing the call or the store.
    retryable: ClassVar[bool] = False

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StoreLocked(StorageFailure):
    """Another process held the store for longer than we were ready to wait."""

    retryable = True


class StoreFull(StorageFailure):
    """The disk has no room for this; as soon as there is some, the store goes on as if nothing had happened."""

    retryable = True


class StoreUnavailable(StorageFailure):
    """The database server does not answer, or went away before it confirmed; asking again is safe."""

    retryable = True


class StoreCorrupt(StorageFailure):
    """What the store gave back is not what was written to it."""


class StoreTooNew(StorageFailure):
    """The store was written by a later version of duelrank than this one."""


class Conflict(DuelrankError, ValueError):
    """A name that is taken by something else already."""


class LimitExceeded(DuelrankError, ValueError):
    """More of something than a service is set up to take; the message names the limit."""


class NotReady(DuelrankError, RuntimeError):
    """A service that has not restored everything yet, or was stopped; the same call may succeed a little later."""


class MissingExtra(DuelrankError, ImportError):
    """An optional dependency that is not installed; the message says which extra brings it."""


class UnreachableScheduler(DuelrankError, ConnectionError):
    """A Dask scheduler that does not answer, or no longer; the message says what to check."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
