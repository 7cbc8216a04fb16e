"""One JSON object per line: reading it where its end may be cut off, and being the only one who writes it."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from duelrank.errors import DataFormatError, InvalidValue

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

__all__ = ["Entry", "lock", "read_entries"]


class Entry(NamedTuple):
    """One whole line: its number from 1, where it ends in the file, and what it says."""

    line: int
    end: int
    row: dict[str, Any]


def read_entries(path: Path, start: int = 0, lines: int = 0) -> Iterator[Entry]:
    """Yield the whole lines of a file, leaving out a last one that was cut off or never reached the disk.

    A damaged line that others follow is an error: that is no accident of writing, and nothing here may delete it.

    Parameters
    ----------
    start, lines
        Begin at this byte, which is behind so many lines.
    """
    bad: str | None = None
    with path.open("rb") as file:
        file.seek(start)
        for number, line in enumerate(file, start=lines + 1):
            if bad is not None:
                raise DataFormatError(bad)
            start += len(line)
            row = _parse(line)
            if row is None:
                bad = (
                    f"line {number} of {path} is damaged; nothing was changed. Keep a copy of the file and remove that "
                    "line: its run will be made again"
                )
            else:
                yield Entry(number, start, row)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("digest"), str) else None


def lock(descriptor: int, folder: Path) -> None:
    """Claim a folder by one of its files until that is closed, or raise where another process has it."""
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise InvalidValue(
                f"another process is writing results in {folder}; wait for it or stop it first"
            ) from None
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):  # a file system without locks will do
            raise
