"""Finds names that are asked of the package itself and are in one of its modules."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from duelrank.core.errors import NoSuchName, UnknownName

__all__ = ["found"]


def found(name: str, known: Iterable[str]) -> ModuleType:
    """Return the module of that name, so that ``duelrank.users`` needs no import of its own; or say where the name is.

    Examples
    --------
    >>> import duelrank
    >>> duelrank.tune
    Traceback (most recent call last):
    duelrank.core.errors.NoSuchName: duelrank has no 'tune': write `from duelrank.experiments import tune`
    """
    modules = [each.name for each in iter_modules(import_module("duelrank").__path__) if not each.name.startswith("_")]
    if name in modules:
        return import_module(f"duelrank.{name}")
    for module in modules:
        with suppress(ImportError):  # it needs an extra
            if name in getattr(import_module(f"duelrank.{module}"), "__all__", ()):
                raise NoSuchName(f"duelrank has no {name!r}: write `from duelrank.{module} import {name}`")
    raise NoSuchName(f"{UnknownName.among('name in duelrank', name, known)}")
