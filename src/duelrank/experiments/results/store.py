"""Stores finished runs in an append-only file that survives kills, full disks and concurrent processes."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from duelrank.algorithms import Algorithm, Projected
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue, MissingData
from duelrank.core.files import sync_folder, write_json, writing
from duelrank.core.grammar import parse
from duelrank.core.registry import spell
from duelrank.core.validation import explained
from duelrank.experiments.results.frame import Frame
from duelrank.simulation import RunSpec
from duelrank.simulation.guarded import NO_GUARD

__all__ = ["Store", "load_results"]

FORMAT = 2
#: Columns that were added since, as they are for runs of earlier versions.
_ADDED: dict[str, Any] = {
    "online_mean": None,
    "online_first": None,
    "log": "",
    "device": "cpu",
    "streams": 1,
    **NO_GUARD,
}
_ABOUT, _NEW_ABOUT, _RUNS, _LOCK = "store.json", "store.json.new", "runs.jsonl", "store.lock"


@explained
class Store:
    """The finished runs of one suite in one folder; use it in a ``with`` statement, because only one process may write to it.

    ``store.json`` names the suite, ``runs.jsonl`` has one line per run and is append-only. When `append` returns, the row is on
    the disk: a kill loses only the runs that were not finished.

    Parameters
    ----------
    folder
        The folder; it is created if it does not exist. A folder with other files is rejected.
    suite
        The name of the suite; a folder of another suite is rejected.

    Examples
    --------
    Of two runs one is finished:

    >>> from tempfile import TemporaryDirectory
    >>> from duelrank import simulate
    >>> from duelrank.experiments import Grid, Store
    >>> specs = Grid("mgd", "synthetic(n_queries=10)", "perfect", runs=2, impressions=20).specs()
    >>> with TemporaryDirectory() as folder, Store(folder, "mine") as store:
    ...     store.append(simulate(specs[0]).row())
    ...     left = store.missing(specs)
    >>> len(specs), len(left)
    (2, 1)
    """

    def __init__(self, folder: str | Path, suite: str) -> None:
        self.folder, self.suite = Path(folder), suite
        self._path = self.folder / _RUNS
        self._digests: set[str] = set()
        self._lines, self._end, self._descriptor = 0, 0, -1
        _check_folder(self.folder, suite)
        with writing("results", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / _LOCK)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        _acquire(self._lock, self.folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        with writing("results", self.folder):
            self._descriptor = os.open(self._path, flags, 0o666)
        _check_folder(self.folder, self.suite)  # again: another process may have written before we got the lock
        about = _read_about(self.folder)
        self.wall_seconds: float = about.get("wall_seconds", 0.0)
        if about.get("format") != FORMAT:
            self._describe()
        self._read_on()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock on the folder; all rows are already written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._lock.release()

    def done(self) -> set[str]:
        """Return the digests of the finished runs."""
        return set(self._digests)

    def missing(self, specs: Iterable[RunSpec]) -> list[RunSpec]:
        """Return the specs without a result, without duplicates, in their order."""
        wanted = {spec.digest: spec for spec in specs}
        return [spec for digest, spec in wanted.items() if digest not in self._digests]

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one finished run; on return it is on the disk. A run that is already stored is not written again."""
        self.extend([row])

    def extend(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write finished runs at once; on return all of them are on the disk, and a kill meanwhile leaves the first of them."""
        fresh = {row["digest"]: _line(row) for row in rows if row["digest"] not in self._digests}
        if not fresh:
            return
        with writing("results", self.folder):
            self._truncate()
            try:
                _write(self._descriptor, b"".join(fresh.values()))
                os.fsync(self._descriptor)
            except OSError:
                with suppress(OSError):  # the next append, in this or another process, repairs the file
                    os.ftruncate(self._descriptor, self._end)
                raise
        for digest, line in fresh.items():
            self._took(digest, self._end + len(line))

    def add_wall_time(self, seconds: float) -> None:
        """Add seconds to the total wall time of the runs in this folder."""
        self.wall_seconds += seconds
        self._describe()

    def load(self) -> Frame:
        """Return all finished runs, in the order in which they were written."""
        return _frame(self._path)

    def _describe(self) -> None:
        from duelrank import __version__

        about = {"format": FORMAT, "suite": self.suite, "duelrank": __version__, "wall_seconds": self.wall_seconds}
        with writing(_ABOUT, self.folder):
            write_json(self.folder / _NEW_ABOUT, about)
            (self.folder / _NEW_ABOUT).replace(self.folder / _ABOUT)
            sync_folder(self.folder)

    def _read_on(self) -> None:
        """Read the lines after those already read."""
        for line in _read_lines(self._path, self._end, self._lines):
            self._took(line.row["digest"], line.end)

    def _took(self, digest: str, end: int) -> None:
        self._digests.add(digest)
        self._lines += 1
        self._end = end

    def _truncate(self) -> None:
        """Remove an incomplete last line, left by a kill or a full disk."""
        if os.fstat(self._descriptor).st_size != self._end:
            self._read_on()  # on a file system without locks, another process may have written whole lines
            os.ftruncate(self._descriptor, self._end)


def load_results(folder: str | Path, suite: str | None = None) -> Frame:
    """Return the finished runs in a folder, even while another process adds runs to it.

    Parameters
    ----------
    suite
        The expected name of the suite; any by default.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.experiments import load_results, reproduce
    >>> with TemporaryDirectory() as folder:
    ...     report = reproduce("quick", folder, users=["perfect"], algorithms=["mgd"], runs=1, impressions=50, workers=1)
    ...     results = load_results(folder)
    >>> len(results)
    1
    """
    folder = Path(folder)
    if not (folder / _ABOUT).is_file():
        raise MissingData(f"no results found in {folder}")
    _check_folder(folder, suite)
    return _frame(folder / _RUNS)


class _Line(NamedTuple):
    """One complete line of the file: its number from 1, the byte where it ends, and its row."""

    number: int
    end: int
    row: dict[str, Any]


def _read_lines(path: Path, start: int = 0, known: int = 0) -> Iterator[_Line]:
    """Yield the complete lines from a byte offset, which follows the given number of lines; omit an incomplete last line.

    A damaged line before the last one is an error: an interrupted write cannot cause it, and it must not be deleted silently.
    """
    bad: str | None = None
    with path.open("rb") as file:
        file.seek(start)
        for number, line in enumerate(file, start=known + 1):
            if bad is not None:
                raise DataFormatError(bad)
            start += len(line)
            row = _parse(line)
            if row is None:
                bad = (
                    f"line {number} of {path} is damaged; nothing was changed. Make a copy of the file and remove that "
                    "line: its run will be made again"
                )
            else:
                yield _Line(number, start, row)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("digest"), str):
        return None
    return row


def _frame(path: Path) -> Frame:
    rows: dict[str, dict[str, Any]] = {}
    first: _Line | None = None
    for line in map(_completed, _read_lines(path)):
        first = first or line
        if line.row.keys() != first.row.keys():
            raise DataFormatError(f"line {line.number} of {path} has other columns than line {first.number}")
        rows.setdefault(line.row["digest"], line.row)
    names: dict[str, dict[str, str]] = {}
    for row in rows.values():
        recipe = str(row.get("recipe", ""))
        row |= names.get(recipe) or names.setdefault(recipe, _names(recipe))
    return Frame.of(rows.values())


def _completed(line: _Line) -> _Line:
    """Return a line of an earlier version with the columns that were added since."""
    return line if "impressions" not in line.row else line._replace(row=_ADDED | line.row)


def _names(recipe: str) -> dict[str, str]:
    """Return how a recipe is spelled today: a new short name must not tear its rows apart. Nothing where it is unknown here."""
    try:
        algorithm = parse(recipe, Algorithm)
    except DuelrankError:
        return {}
    base = spell(algorithm.base) if isinstance(algorithm, Projected) else ""
    return {"algorithm": spell(algorithm), "base": base}


def _acquire(lock: FileLock, folder: Path) -> None:
    """Lock a folder for writing; raise an error if another process holds the lock. Skip file systems without locks."""
    with writing("results", folder):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            busy = f"another process is writing results in {folder}; wait for it or stop it first"
            raise InvalidValue(busy) from None
        except NotImplementedError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise


def _check_folder(folder: Path, suite: str | None) -> None:
    """Raise an error unless a folder is new, empty, or has results of this suite in a readable format."""
    if folder.exists() and not folder.is_dir():
        raise InvalidValue(f"{folder} is a file, not a folder for results")
    if (folder / _ABOUT).exists():
        _check_about(folder, suite)
    elif folder.is_dir():
        # A kill during the creation of the folder may leave these files, without results.
        ours = {_NEW_ABOUT, _LOCK} if _has_content(folder / _RUNS) else {_NEW_ABOUT, _LOCK, _RUNS}
        foreign = sorted(path.name for path in folder.iterdir() if path.name not in ours)
        if foreign:
            raise InvalidValue(
                f"{folder} has no {_ABOUT} but other files ({', '.join(foreign[:3])}); "
                "results need a new folder, an empty one, or one that has results already"
            )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _check_about(folder: Path, suite: str | None) -> None:
    about = _read_about(folder)
    if about["format"] != FORMAT:
        raise DataFormatError(
            f"{folder} has results in format {about['format']}, written by duelrank {about['duelrank']}; this version "
            f"reads format {FORMAT}: choose another folder, or use that version"
        )
    if suite is not None and about["suite"] != suite:
        raise InvalidValue(f"{folder} has results of {about['suite']!r}, not of {suite!r}; choose another folder")


def _read_about(folder: Path) -> dict[str, Any]:
    """Return the content of ``store.json``, or an empty mapping if it does not exist."""
    path = folder / _ABOUT
    if not path.exists():
        return {}
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        needed = {name: about[name] for name in ("format", "suite", "duelrank")}
        return {"wall_seconds": 0.0, **about, **needed}
    except (ValueError, KeyError, TypeError) as error:
        raise DataFormatError(f"{path} is damaged ({error}); restore it, or choose another folder") from None


def _line(row: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(dict(row), allow_nan=False, separators=(",", ":")) + "\n").encode("ascii")
    except ValueError:
        raise InvalidValue(f"the results of {row['id']} contain a NaN or infinite value") from None


def _write(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    while written < len(line):  # the disk is full: the next call reports it
        written += os.write(descriptor, line[written:])
