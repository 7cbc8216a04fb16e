"""Writes files and folders atomically: arrays that grow by rows, folders that are published in one step."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duelrank.core.errors import DuelrankError, StorageFailure

HEADER_BYTES = 128  # fixed header size, so that the shape can be written last
_PARTIAL = ".partial-"
_ABANDONED_AFTER = 86_400.0  # seconds; for folders of other machines, whose processes cannot be checked


@contextmanager
def writing(what: str, where: Path) -> Iterator[None]:
    """Convert an `OSError`, such as a full disk, into a `StorageFailure` that names what was being written."""
    try:
        yield
    except DuelrankError:
        raise
    except OSError as error:
        raise StorageFailure(f"could not write {what} in {where}: {error.strerror or error}") from error


class ArrayWriter:
    """A ``.npy`` file that grows by rows; it is not memory-mapped, because a full disk would then kill the process."""

    def __init__(self, path: Path, dtype: DTypeLike, columns: int | None = None) -> None:
        self.path, self.dtype, self.columns = path, np.dtype(dtype), columns
        self.rows = 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER_BYTES))

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows; rows with fewer columns are padded with zeros."""
        missing = 0 if self.columns is None else self.columns - rows.shape[1]
        if missing:
            rows = np.pad(rows, ((0, 0), (0, missing)))
        self._file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.rows += len(rows)

    def finish(self) -> None:
        """Write the header and sync the file to disk."""
        with self._file as file:
            file.seek(0)
            file.write(_header(self.dtype, self.rows, self.columns))
            file.flush()
            os.fsync(file.fileno())

    def abandon(self) -> None:
        """Close the file, finished or not; flushing the buffer may fail on a full disk."""
        with suppress(OSError):
            self._file.close()

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        self.abandon()


def _header(dtype: np.dtype[Any], rows: int, columns: int | None) -> bytes:
    shape = (rows,) if columns is None else (rows, columns)
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
    return start + text.ljust(HEADER_BYTES - 11).encode() + b"\n"


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write a whole array."""
    with ArrayWriter(path, array.dtype, array.shape[1] if array.ndim == 2 else None) as writer:
        writer.append(array)


def read_rows(path: Path, columns: int, cuts: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
    """Read float64 rows of an array file piece by piece, with one piece in memory at a time."""
    with path.open("rb") as file:
        file.seek(HEADER_BYTES + int(cuts[0]) * columns * 8)
        for rows in np.diff(cuts).tolist():
            yield np.fromfile(file, np.float64, rows * columns).reshape(rows, columns)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an indented JSON file."""
    with path.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def new_folder(parent: Path) -> Iterator[Path]:
    """Create a temporary folder next to its target; it is removed at the end unless it was published."""
    with writing("a new folder", parent):
        parent.mkdir(parents=True, exist_ok=True)
        for stale in parent.glob(f"{_PARTIAL}*"):
            if _abandoned(stale):
                discard(stale)
        folder = parent / f"{_PARTIAL}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir()
    try:
        yield folder
    finally:
        discard(folder)


def publish(folder: Path, target: Path) -> bool:
    """Move a finished folder to its target in one step; return False if another process was faster."""
    with writing("a finished folder", target.parent):
        for path in sorted(folder.rglob("*"), reverse=True):
            sync_folder(path)
        sync_folder(folder)
        try:
            folder.rename(target)
        except OSError:
            if target.is_dir():
                return False
            raise
        sync_folder(target.parent)
    return True


def discard(folder: Path) -> None:
    """Remove a folder as far as possible, ignoring errors."""
    shutil.rmtree(folder, ignore_errors=True)


def sync_folder(path: Path) -> None:
    """Sync a folder to disk, if the operating system supports it."""
    if os.name == "posix" and path.is_dir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _abandoned(folder: Path) -> bool:
    """Return whether the process that was writing a folder has ended."""
    host, _, rest = folder.name.removeprefix(_PARTIAL).rpartition("-")[0].rpartition("-")
    if os.name == "posix" and host == socket.gethostname() and rest.isdigit():
        try:
            os.kill(int(rest), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False
    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED_AFTER
    except OSError:
        return False
