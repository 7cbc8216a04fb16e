"""Defines the exceptions of duelrank: all derive from `DuelrankError`, and each also from a similar builtin exception."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

_FEW = 30  # names that a message may list although it suggests some of them


class DuelrankError(Exception):
    """The base class of all exceptions that duelrank raises on purpose.

    Examples
    --------
    >>> from duelrank import DuelrankError, Query
    >>> try:
    ...     Query("shoes", [[0.1, float("nan")]])
    ... except DuelrankError as error:
    ...     print(error)
    features must be finite, found nan at document 0, feature 1
    """


class InvalidValue(DuelrankError, ValueError):
    """A value that is not allowed, such as a NaN feature or a negative label."""


class InvalidCall(InvalidValue, TypeError):
    """A call with an unknown, missing, repeated or superfluous argument; the message lists the parameters."""


class NoSuchName(DuelrankError, AttributeError):
    """A name that a module does not have; the message names its module, or suggests similar names."""


class ShapeMismatch(DuelrankError, ValueError):
    """Arrays whose shapes do not match."""


class InvalidRecipe(DuelrankError, ValueError):
    """A recipe string or parameter that is malformed, unknown, ambiguous or of the wrong type."""


class UnknownName(DuelrankError, LookupError):
    """A name that is not registered; the message suggests similar names."""

    @classmethod
    def among(cls, what: str, name: str, known: Iterable[str]) -> UnknownName:
        """Build the error for ``name``: suggest the nearest of the ``known`` names; list all if none is near or few are known."""
        names = sorted(known)
        lower = {each.lower(): each for each in names}
        same = [lower[name.lower()]] if name.lower() in lower else []
        near = same or [lower[each] for each in get_close_matches(name.lower(), lower, n=3, cutoff=0.6)]
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        listed = "" if near and len(names) > _FEW else f"known: {', '.join(names) or 'none'}"
        return cls(f"no {what} is called {name!r}; {' '.join(filter(None, (hint, listed)))}")


class DataFormatError(DuelrankError, ValueError):
    """Data that cannot be read, such as a malformed line, a truncated archive or an unsupported format."""


class MissingData(DuelrankError, FileNotFoundError):
    """A data set that is known but not installed here, or a path that does not exist."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageFailure(DuelrankError, OSError):
    """Data could not be written or read back; no partially written data is left behind."""

    #: Whether the same call may succeed later without any change to the call or the store.
    retryable: ClassVar[bool] = False

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StoreLocked(StorageFailure):
    """Another process held the lock of the store for longer than the timeout."""

    retryable = True


class StoreFull(StorageFailure):
    """The disk is full; the store works again as soon as there is free space."""

    retryable = True


class StoreUnavailable(StorageFailure):
    """The database server does not answer, or the connection was lost before the commit was confirmed; a retry is safe."""

    retryable = True


class StoreCorrupt(StorageFailure):
    """The store returned data that differs from the data written to it."""


class StoreTooNew(StorageFailure):
    """The store was written by a later version of duelrank."""


class Conflict(DuelrankError, ValueError):
    """A name that is already in use."""


class ReadOnly(DuelrankError, ValueError):
    """A change of a store that was opened for reading only."""


class LimitExceeded(DuelrankError, ValueError):
    """A configured limit of a service is exceeded; the message names the limit."""


class NotReady(DuelrankError, RuntimeError):
    """A service that is still starting, or was stopped; the same call may succeed later."""


class MissingExtra(DuelrankError, ImportError):
    """An optional dependency that is not installed; the message names the extra that installs it."""


class UnreachableScheduler(DuelrankError, ConnectionError):
    """A Dask scheduler that does not answer or stopped answering; the message says what to check."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
