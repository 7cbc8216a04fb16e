"""Parts that live in a user's own Python files: loading a file makes what it registers known, in every process."""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from duelrank.errors import InvalidValue, MissingData

__all__ = ["VARIABLE", "load_extension", "load_extensions"]

#: Names the files, as PATH does its folders; worker processes inherit it and load them too.
VARIABLE = "DUELRANK_LOAD"


def load_extensions() -> None:
    """Load every file that the environment variable names."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        load_extension(path)


def load_extension(path: str | Path) -> ModuleType:
    """Run a Python file once in this process, so that the algorithms it registers can be used by name."""
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise MissingData(f"there is no file {path} to load")
    # The name depends on the whole path: workers find the same module, and two files of one name do not collide.
    name = f"duelrank_extension_{file.stem}_{sha256(str(file).encode()).hexdigest()[:8]}"
    return sys.modules.get(name) or _run(file, name)


def _run(file: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InvalidValue(f"cannot load {file}: it is not a Python file (.py)")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InvalidValue(f"cannot load {file}: {type(error).__name__}: {error}") from error
    return module
