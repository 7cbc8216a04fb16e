"""Loads extensions, users' Python files that register parts, in this process and in every worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from tempfile import mkdtemp
from threading import RLock
from types import CodeType, ModuleType

from duelrank.core.errors import InvalidValue, MissingData
from duelrank.core.registry import forget

#: The environment variable with the paths of the files, separated as in PATH.
VARIABLE = "DUELRANK_LOAD"


@dataclass(frozen=True)
class Extension:
    """A Python file with its content, so that it can run on a machine that does not have the file."""

    path: str
    source: bytes

    @property
    def module(self) -> str:
        """The name of its module: the same in every process, and unique among files of the same name."""
        return f"duelrank_extension_{Path(self.path).stem}_{_digest(self.path.encode())}"


_loaded: dict[str, tuple[Extension, ModuleType]] = {}
_lock = RLock()  # a Dask worker may have several threads


def load_extensions() -> None:
    """Load every file that the environment variable DUELRANK_LOAD names."""
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        load_extension(path)


def load_extension(path: str | Path) -> ModuleType:
    """Run a Python file, so that the parts it registers can be used by name, here and in every worker.

    A file runs again only if it has changed since it was loaded; it then replaces what it registered before.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise MissingData(f"cannot load {path}: the file does not exist")
    if file.suffix != ".py":
        raise InvalidValue(f"cannot load {file}: it is not a Python file (.py)")
    return _load(Extension(str(file), file.read_bytes()))


def loaded_extensions() -> tuple[Extension, ...]:
    """Return the extensions of this process, in the order in which they were loaded."""
    return tuple(extension for extension, _ in _loaded.values())


def use_extensions(extensions: Iterable[Extension]) -> None:
    """Make these the extensions of this process: load missing and changed ones, and unregister all others."""
    wanted = {extension.module: extension for extension in extensions}
    with _lock:
        for module in [name for name in _loaded if name not in wanted]:
            _forget(module)
        for extension in wanted.values():
            _load(extension)


def _load(extension: Extension) -> ModuleType:
    with _lock:
        known, module = _loaded.get(extension.module, (None, None))
        if module is None or known != extension:
            _forget(extension.module)
            module = _run(extension)
            _loaded[extension.module] = extension, module
        return module


def _forget(name: str) -> None:
    _loaded.pop(name, None)
    sys.modules.pop(name, None)
    forget(name)


def _run(extension: Extension) -> ModuleType:
    loader = _Loader(extension.module, _file(extension), extension.source)
    spec = spec_from_loader(extension.module, loader)
    assert spec is not None
    module = sys.modules[extension.module] = module_from_spec(spec)
    try:
        loader.exec_module(module)
    except Exception as error:
        _forget(extension.module)
        raise InvalidValue(f"cannot load {extension.path}: {type(error).__name__}: {error}") from error
    return module


class _Loader(SourceFileLoader):
    """Compiles the given source instead of byte code on disk, which may be outdated: its age is known only in seconds."""

    def __init__(self, module: str, path: str, source: bytes) -> None:
        super().__init__(module, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.source, self.path)


def _file(extension: Extension) -> str:
    """Return a path of the source on this machine, where numba's cache and tracebacks read it."""
    path = Path(extension.path)
    try:
        if path.read_bytes() == extension.source:
            return str(path)
    except OSError:
        pass
    copy = _folder() / _digest(extension.path.encode() + extension.source) / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(extension.source)
    return str(copy)


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="duelrank-extensions-"))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:8]
