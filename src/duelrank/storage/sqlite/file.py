"""The file of a store: private to its owner, and noticed when it is gone."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from duelrank.core.errors import StoreUnavailable
from duelrank.storage.values import Usage

__all__ = ["StoreFile", "create_private", "inode", "on_read_only_disk", "size"]


class StoreFile:
    """The file that a store is in, told by its inode from another file at the same path."""

    def __init__(self, path: Path, create: bool = True) -> None:
        if create:
            create_private(path)
        self.path, self.wal = path, Path(f"{path}-wal")
        self._inode: tuple[int, int] | None = None

    def remember(self) -> None:
        """Take the file that is at the path now for the store."""
        self._inode = inode(self.path)

    def check(self) -> None:
        """Raise where the file is no longer at its path: what is written to it would be lost when the process ends."""
        if self._inode is None or (found := inode(self.path)) == self._inode:
            return
        what = "is gone" if found is None else "was replaced by another file"
        raise StoreUnavailable(
            f"the store {self.path}: the file {what} while this process uses it, and nothing is written any more; "
            "move the file back to its place, or restart this process to use what is there now"
        )

    def usage(self) -> Usage:
        """Return the size of the file and its write-ahead log, and the free space of its disk."""
        self.check()
        return Usage(size(self.path) + size(self.wal), shutil.disk_usage(self.path.parent).free)


def create_private(path: Path) -> None:
    """Make an empty file that only its owner can read, where there is none; SQLite gives its other files the same rights."""
    with suppress(
        OSError
    ):  # there is one (which must not be opened: to close it would end SQLite's locks), or no folder
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def on_read_only_disk(path: Path) -> bool:
    """Whether the file system of a path is mounted such that nobody can write to it."""
    try:
        return bool(os.statvfs(path if path.exists() else path.parent).f_flag & os.ST_RDONLY)
    except (AttributeError, OSError):  # Windows does not know it; there is no such folder
        return False


def size(path: Path) -> int:
    """Return the size of a file, 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def inode(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one at the same path, None where there is none."""
    try:
        found = os.stat(path)  # half the time of Path.stat, once per transaction
    except OSError:  # not there, or its folder is closed to us
        return None
    return found.st_dev, found.st_ino
