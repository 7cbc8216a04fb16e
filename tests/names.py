"""What a module offers: the names it lists, or else the functions and classes that it defines."""

from __future__ import annotations

import inspect
from types import ModuleType


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value)) if callable(value) else False)
        and getattr(value, "__module__", None) == module.__name__
    ]
