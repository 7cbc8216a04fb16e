"""Finished runs on disk: an append-only file that a kill, a full disk or a second process cannot spoil."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from duelrank.datasets.files import sync_folder, write_json, writing
from duelrank.errors import DataFormatError, InvalidValue, MissingData
from duelrank.experiments.frame import Frame
from duelrank.experiments.journal import Entry, lock, read_entries
from duelrank.simulation import RunSpec

__all__ = ["Store", "load_results"]

FORMAT = 1
_ABOUT, _NEW_ABOUT, _RUNS = "store.json", "store.json.new", "runs.jsonl"


class Store:
    """The finished runs of one suite in one folder; open it with ``with``, since only one process may have it.

    ``store.json`` says whose results these are, ``runs.jsonl`` has one line per run and only ever grows. A row that
    `append` has returned from is on the disk for good: what a kill at any moment can cost is the runs in flight.

    Parameters
    ----------
    folder
        Is made where it does not exist; one with anything else in it is refused.
    suite
        The name of the experiment; a folder of another one is refused.
    """

    def __init__(self, folder: str | Path, suite: str) -> None:
        self.folder, self.suite = Path(folder), suite
        self._path = self.folder / _RUNS
        self._digests: set[str] = set()
        self._lines, self._end = 0, 0
        _check_folder(self.folder, suite)
        with writing("results", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._descriptor = os.open(self._path, flags, 0o666)
        try:
            lock(self._descriptor, self.folder)
            _check_folder(self.folder, suite)  # again: until the lock, another process may have been here
            if not (self.folder / _ABOUT).exists():
                _describe(self.folder, suite)
            self._read_on()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the folder; nothing is left to be written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def done(self) -> set[str]:
        """Return the digests of the finished runs."""
        return set(self._digests)

    def missing(self, specs: Iterable[RunSpec]) -> list[RunSpec]:
        """Return the specs that have no result yet, each once, in their order."""
        wanted = {spec.digest: spec for spec in specs}
        return [spec for digest, spec in wanted.items() if digest not in self._digests]

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one finished run; on return it is on the disk. A run that is there already is not written again."""
        if row["digest"] in self._digests:
            return
        line = _line(row)
        with writing("results", self.folder):
            self._settle()
            try:
                _write(self._descriptor, line)
                os.fsync(self._descriptor)
            except OSError:
                with suppress(OSError):  # the next append, in this process or another, tries again
                    os.ftruncate(self._descriptor, self._end)
                raise
        self._took(row["digest"], self._end + len(line))

    def load(self) -> Frame:
        """Return all finished runs, in the order in which they were written."""
        return _frame(self._path)

    def _read_on(self) -> None:
        """Take notice of the lines behind those that are known."""
        for entry in read_entries(self._path, self._end, self._lines):
            self._took(entry.row["digest"], entry.end)

    def _took(self, digest: str, end: int) -> None:
        self._digests.add(digest)
        self._lines += 1
        self._end = end

    def _settle(self) -> None:
        """Cut away what a kill or a full disk has left of a line, so that the next one begins at its beginning."""
        if os.fstat(self._descriptor).st_size != self._end:
            self._read_on()  # where the file system has no locks, another process may have written whole lines
            os.ftruncate(self._descriptor, self._end)


def load_results(folder: str | Path, suite: str) -> Frame:
    """Return the finished runs in a folder without claiming it: also while another process is adding to it."""
    folder = Path(folder)
    if not (folder / _ABOUT).is_file():
        raise MissingData(f"there are no results in {folder}")
    _check_folder(folder, suite)
    return _frame(folder / _RUNS)


def _frame(path: Path) -> Frame:
    rows: dict[str, Entry] = {}
    first: Entry | None = None
    for entry in read_entries(path):
        first = first or entry
        if entry.row.keys() != first.row.keys():
            raise DataFormatError(f"line {entry.line} of {path} has other columns than line {first.line}")
        rows.setdefault(entry.row["digest"], entry)
    return Frame.of(entry.row for entry in rows.values())


def _check_folder(folder: Path, suite: str) -> None:
    """Raise unless a folder is new, empty, or one of this suite's and of this format."""
    if folder.exists() and not folder.is_dir():
        raise InvalidValue(f"{folder} is a file, not a folder for results")
    about = folder / _ABOUT
    if about.exists():
        _check_about(about, suite)
    elif folder.is_dir():
        # A kill while the folder was being made may leave the first two of these, and nothing in them that counts.
        ours = {_NEW_ABOUT, _RUNS} if not _has_content(folder / _RUNS) else {_NEW_ABOUT}
        foreign = sorted(path.name for path in folder.iterdir() if path.name not in ours)
        if foreign:
            raise InvalidValue(
                f"{folder} has no {_ABOUT} but other files ({', '.join(foreign[:3])}); "
                "results need a new folder, an empty one, or one of theirs"
            )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _check_about(path: Path, suite: str) -> None:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        number, found, version = (about[name] for name in ("format", "suite", "duelrank"))
    except (ValueError, KeyError, TypeError) as error:
        raise DataFormatError(f"{path} is damaged ({error}); restore it, or choose another folder") from None
    if number != FORMAT:
        raise DataFormatError(
            f"{path.parent} has results in format {number}, written by duelrank {version}; this version reads format "
            f"{FORMAT}: choose another folder, or use that version"
        )
    if found != suite:
        raise InvalidValue(f"{path.parent} has results of {found!r}, not of {suite!r}; choose another folder")


def _describe(folder: Path, suite: str) -> None:
    from duelrank import __version__

    with writing(_ABOUT, folder):
        write_json(folder / _NEW_ABOUT, {"format": FORMAT, "suite": suite, "duelrank": __version__})
        (folder / _NEW_ABOUT).replace(folder / _ABOUT)
        sync_folder(folder)


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(dict(row), allow_nan=False, separators=(",", ":")) + "\n").encode("ascii")
    except ValueError:
        raise InvalidValue(f"the results of {row['id']} have a NaN or an infinite value") from None


def _write(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    while written < len(line):  # the disk is filling up: the next call says so
        written += os.write(descriptor, line[written:])
