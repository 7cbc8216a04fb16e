"""Writes result files atomically: a reader sees either the old content or the new, never a mixture."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from duelrank.core.errors import StorageFailure

__all__ = ["write_bytes"]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, and create its folder if needed; devices and pipes are written to directly."""
    if path.is_char_device() or path.is_fifo():
        _write_directly(path, content)
        return
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise StorageFailure(f"could not write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _write_directly(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise StorageFailure(f"could not write {path}: {error.strerror or error}") from error
