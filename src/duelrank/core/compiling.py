"""Declares kernels: functions on arrays that numba compiles on their first call and caches on disk.

Importing a kernel costs nothing: numba itself is imported by the first call of the first kernel. Compiled code is cached
in the folder "kernels" of `home`, or in the folder that ``NUMBA_CACHE_DIR`` names. Each combination of our sources, numba's
version and Python's version has its own subfolder, because numba does not notice a change in a kernel that another file calls.
With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python: a debugger can step through them, nothing is compiled, and numba is not
imported.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from duelrank.core.home import home

P = ParamSpec("P")
R = TypeVar("R")

_KEPT = 10  # folders of other states of the sources
_PATIENCE = 60.0  # seconds for the compilation of one kernel by another process
_SOURCES = Path(__file__).parents[1] / "kernels"
_lock = RLock()
_log = logging.getLogger(__name__)


class Kernel(Generic[P, R]):
    """A function that is compiled on its first call; after that, the package's modules call the compiled function directly."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._function: Any = function
        self._options = options
        self._compiled: Any = None
        self._callee: Any = None

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the compiled function."""
        result: R = (self._compiled or self.compiled)(*arguments, **named)
        return result

    @property
    def compiled(self) -> Any:
        """Numba's dispatcher of the function, which compiles or loads it for each combination of argument types."""
        with _lock:
            if self._compiled is None:
                self._compiled = self._dispatcher("called-by-python", no_cfunc_wrapper=True)
                self._replace_by_compiled()
        return self._compiled

    @property
    def callee(self) -> Any:
        """The dispatcher that other kernels call: it compiles in half the time, because it has no wrapper for Python objects."""
        with _lock:
            if self._callee is None:
                self._callee = self._dispatcher("called-by-kernels", no_cfunc_wrapper=True, no_cpython_wrapper=True)
        return self._callee

    def _dispatcher(self, folder: str, **options: Any) -> Any:
        """Compile a copy of the function in which calls of other kernels refer to dispatchers, as numba requires."""
        known = dict(self._function.__globals__)
        for name in self._function.__code__.co_names:
            if isinstance(known.get(name), Kernel):
                known[name] = known[name].callee
        function = FunctionType(self._function.__code__, known, self._function.__name__)
        return _dispatcher(
            update_wrapper(function, self._function), folder, {"error_model": "numpy"} | options | self._options
        )

    def _replace_by_compiled(self) -> None:
        """Replace this object by the dispatcher in all modules of the package, so that later calls have no overhead."""
        for module in [module for name, module in sys.modules.copy().items() if name.startswith("duelrank.")]:
            for name, value in list(vars(module).items()):
                if value is self:
                    setattr(module, name, self._compiled)


class Intrinsic(Kernel[P, R]):
    """A kernel with hand-written LLVM instructions, which numba would not generate; only other kernels can call these.

    Calls from Python run the plain function, which defines the result.
    """

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the function in Python."""
        result: R = self._function(*arguments, **named)
        return result

    @property
    def callee(self) -> Any:
        """The intrinsic function of numba that other kernels call."""
        if self._callee is None:
            typed = self._options["typed"]
            self._callee = _plain(self._function) if _not_compiled() else _numba().extending.intrinsic(typed)
        return self._callee


def intrinsic(typed: Callable[..., Any]) -> Callable[[Callable[P, R]], Intrinsic[P, R]]:
    """Declare a kernel by its instructions: ``typed`` returns its signature and their generator, as `numba.extending` describes."""
    return lambda function: Intrinsic(function, {"typed": typed})


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...
@overload
def kernel(**options: Any) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...
def kernel(function: Callable[P, R] | None = None, /, **options: Any) -> Any:
    """Declare a kernel: ``@kernel``, or ``@kernel(inline="always")`` with options of `numba.njit`."""
    if function is not None:
        return Kernel(function, options)
    return lambda function: Kernel(function, options)


def _dispatcher(function: Callable[..., Any], subfolder: str, options: dict[str, Any]) -> Any:
    """Return numba's dispatcher, with a cache in our folder, or without a cache if the folder is not writable."""
    if _not_compiled():
        return _plain(function)
    numba = _numba()
    folder, before = kernel_folder(), numba.config.CACHE_DIR
    if folder is None:
        return numba.njit(**options)(function)
    numba.config.CACHE_DIR = str(folder / subfolder)  # read while a dispatcher is made, and never again
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # the folder was removed in the meantime
        return numba.njit(**options)(function)
    finally:
        numba.config.CACHE_DIR = before
    dispatcher._cache._guard_against_spurious_io_errors = lambda: suppress(OSError)  # such as a full disk
    if (
        Path(function.__code__.co_filename).parent == _SOURCES
    ):  # the folder is for these sources; images change times of files
        dispatcher._cache._cache_file._source_stamp = folder.name
    name = f"{function.__module__}.{function.__qualname__}.lock"
    dispatcher.compile = _one_at_a_time(dispatcher.compile, folder / subfolder / name)
    return dispatcher


def _not_compiled() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT") == "1" or bool(_numba().config.DISABLE_JIT)


def _plain(function: Callable[..., Any]) -> Any:
    """Return the function itself, for a debugger: slow, with the same results, and without warnings of overflows."""
    import numpy

    plain: Any = numpy.errstate(all="ignore")(function)
    plain.py_func = function
    return plain


def _one_at_a_time(compile_: Callable[P, R], path: Path) -> Callable[P, R]:
    """Let one process compile a kernel while others that need it wait, and then load it from the cache.

    Calls between kernels have no cycles, so processes cannot deadlock; threads take numba's own lock first.
    """

    def alone(*arguments: P.args, **named: P.kwargs) -> R:
        from numba.core.compiler_lock import global_compiler_lock

        with global_compiler_lock, _locked(path):
            return compile_(*arguments, **named)

    return alone


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock; continue without it if locks are not supported or its holder hangs, and compile the kernel twice."""
    from filelock import FileLock  # imported with numba, not with duelrank

    lock = FileLock(path, timeout=_PATIENCE)
    with suppress(OSError, NotImplementedError):  # Timeout is an OSError too
        lock.acquire(poll_interval=0.01)
    try:
        yield
    finally:
        lock.release()


@cache
def _numba() -> Any:
    """Import numba, and register the listener that logs compilations."""
    import numba
    from numba.core import event

    class Announcer(event.Listener):
        """Logs the first compilation of a kernel in this process; loading a kernel from the cache is not logged."""

        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"].py_func.__module__.startswith("duelrank."):
                _announce()

        def on_end(self, event: Any) -> None:
            """Do nothing at the end of a compilation."""

    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
    return numba


@cache
def _announce() -> None:
    often = "only the first time" if kernel_folder() else "in every process, because no cache folder is writable"
    _log.warning("compiling kernels (some seconds, %s) ...", often)


@cache
def kernel_folder() -> Path | None:
    """Return the cache folder for kernels of the current sources, or None if no folder is writable.

    Kernels in a folder that is not writable, such as that of an image, are copied to a temporary one, because numba has to write.
    """
    prepared: Path | None = None
    for place in (_chosen, _temporary):
        with suppress(OSError, RuntimeError):  # RuntimeError: this user has no home directory
            folder = place() / f"duelrank-{_digest()}"
            if prepared is not None and prepared.is_dir():
                shutil.copytree(prepared, folder, dirs_exist_ok=True)
            prepared = folder
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)
            _tidy(folder.parent)
            return folder
    return None


def _chosen() -> Path:
    given = _numba().config.CACHE_DIR
    return Path(given) if given else home() / "kernels"


def _temporary() -> Path:
    """Return a temporary folder that only this user can write to: compiled code of other users must never run."""
    user = getattr(os, "getuid", lambda: 0)()
    path = Path(tempfile.gettempdir()) / f"duelrank-kernels-{user}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if os.name == "posix" and (found.st_uid != user or found.st_mode & 0o077 or path.is_symlink()):
        raise PermissionError(f"{path} belongs to another user")
    return path


def _digest() -> str:
    """Return a hash of the sources, of numba's version and of Python's version."""
    state = hashlib.sha256(f"{sys.implementation.cache_tag} {_numba().__version__}".encode())
    for path in sorted(_SOURCES.glob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def _tidy(place: Path) -> None:
    """Remove the least recently used cache folders."""
    folders = sorted(place.glob("duelrank-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in folders[_KEPT + 1 :]:
        shutil.rmtree(path, ignore_errors=True)
