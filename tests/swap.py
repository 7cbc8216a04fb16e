"""Replaces the kernels temporarily by their reference versions, or by timed versions."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duelrank.kernels
from duelrank.core.compiling import Intrinsic, Kernel


def kernels() -> dict[tuple[str, str], Any]:
    """Return every public kernel by (module, name), as numba's dispatcher; as a plain function under NUMBA_DISABLE_JIT.

    Intrinsic functions are left out: they have no dispatcher.
    """
    found: dict[tuple[str, str], Any] = {}
    for info in pkgutil.iter_modules(duelrank.kernels.__path__):
        module = importlib.import_module(f"duelrank.kernels.{info.name}")
        for name, value in list(vars(module).items()):
            kernel = value.compiled if isinstance(value, Kernel) and not isinstance(value, Intrinsic) else value
            own = getattr(getattr(kernel, "py_func", None), "__module__", None) == module.__name__
            if own and not name.startswith("_"):
                found[info.name, name] = kernel
    return found


def reference(module: str, name: str) -> Callable[..., Any]:
    """Return the reference version of a kernel."""
    found: Callable[..., Any] = getattr(importlib.import_module(f"tests.reference.{module}"), name)
    return found


@contextmanager
def swapped(replacement: Callable[[str, str, Any], Any]) -> Iterator[None]:
    """Replace each kernel by ``replacement(module, name, kernel)`` in all modules of duelrank, within the block.

    Compiled kernels call each other directly and are not affected; kernels that run inside the block must have been
    compiled before.
    """
    chosen = {id(kernel): replacement(*key, kernel) for key, kernel in kernels().items()}
    changed: list[tuple[Any, str, Any]] = []
    try:
        for name, module in list(sys.modules.items()):
            if name.startswith(("duelrank.", "tests.reference.")):
                for attribute, value in list(vars(module).items()):
                    kernel = value.compiled if isinstance(value, Kernel) and not isinstance(value, Intrinsic) else value
                    if id(kernel) in chosen:
                        changed.append((module, attribute, value))
                        setattr(module, attribute, chosen[id(kernel)])
        yield
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)
