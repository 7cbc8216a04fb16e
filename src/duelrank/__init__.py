"""duelrank learns a search ranker from clicks, while it serves.

``__init__.pyi`` lists the public names. Each is imported on first use, so that `import duelrank` itself is fast.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import lazy_loader

__version__ = "0.2.0"

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("_"):
        return _public(name)
    return _elsewhere(name)


def _elsewhere(name: str) -> ModuleType:
    """Return the module of that name, so that ``duelrank.users`` needs no import, or raise an error that names the right module.

    Examples
    --------
    >>> import duelrank
    >>> duelrank.tune
    Traceback (most recent call last):
    duelrank.core.errors.NoSuchName: duelrank has no 'tune': write `from duelrank.experiments import tune`
    """
    from contextlib import suppress
    from importlib import import_module
    from pkgutil import iter_modules

    from duelrank.core.errors import NoSuchName, UnknownName

    parents = {each.name: "duelrank" for each in iter_modules(__path__) if not each.name.startswith("_")}
    for package in ("core", "evidence", "adapters"):
        parents |= {each.name: f"duelrank.{package}" for each in iter_modules([f"{__path__[0]}/{package}"])}
    if name in parents:
        return import_module(f"{parents[name]}.{name}")
    for module, parent in parents.items():
        with suppress(ImportError):  # it needs an extra
            found = getattr(import_module(f"{parent}.{module}"), name, None)
            if getattr(found, "__module__", "").startswith("duelrank."):
                raise NoSuchName(f"duelrank has no {name!r}: write `from {parent}.{module} import {name}`")
    raise NoSuchName(f"{UnknownName.among('name in duelrank', name, __all__)}")
