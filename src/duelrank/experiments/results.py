"""Stores the results of runs in a folder, loads them as a `Frame` of columns, and describes their provenance."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from html import escape
from importlib.metadata import PackageNotFoundError, version
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from duelrank import __version__
from duelrank.algorithms import Algorithm
from duelrank.algorithms.remembered import base_of
from duelrank.core.errors import DataFormatError, DuelrankError, InvalidValue, MissingData, UnknownName
from duelrank.core.files import sync_folder, write_json, writing
from duelrank.core.grammar import parse
from duelrank.core.registry import counted, spell
from duelrank.core.validation import explained
from duelrank.datasets import Fold
from duelrank.simulation import RunSpec
from duelrank.simulation.guarded import NO_GUARD
from duelrank.simulation.run import data_frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from duelrank.experiments.figures import CurveColumn
    from duelrank.experiments.tables import Table

_NOTEBOOK_ROWS = 10  # number of rows of a frame that a notebook shows

_FORMAT = 2  # version of the stored files
#: Columns that later versions added, with their values for runs of earlier versions.
_ADDED: dict[str, Any] = {
    "online_mean": None,
    "online_first": None,
    "online_blocks": (),
    "reward_curve": (),
    "reward_by_views": (),
    "lists_by_views": (),
    "log": "",
    "device": "cpu",
    "streams": 1,
    **NO_GUARD,
}
_ABOUT, _NEW_ABOUT, _RUNS, _LOCK = "store.json", "store.json.new", "runs.jsonl", "store.lock"

_PACKAGES = ("numpy", "scipy", "numba", "matplotlib")
_SAMPLED_ROWS = 1000  # number of documents whose features are hashed per split; all labels and queries are hashed


class Frame:
    """Columns of equal length, with one row per run.

    Text and numbers are plain arrays; a column of curves is an object array of float arrays.

    Parameters
    ----------
    columns
        From the name of each column to its values.

    Examples
    --------
    >>> from duelrank.experiments import Frame
    >>> frame = Frame.of([{"user": "perfect", "fold": 1}, {"user": "perfect", "fold": 2}])
    >>> frame["fold"].tolist()
    [1, 2]
    >>> [(key, len(rows)) for key, rows in frame.groups("user")]
    [(('perfect',), 2)]
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self.columns: dict[str, NDArray[Any]] = dict(columns)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Frame:
        """Make a frame from rows that all have the same column names."""
        rows = list(rows)
        names = list(rows[0]) if rows else []
        return cls({name: _column([row[name] for row in rows]) for name in names})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise UnknownName.among("column", name, self.columns)
        return self.columns[name]

    def where(self, **wanted: Any) -> Frame:
        """Return the rows in which each named column has the given value."""
        keep = np.ones(len(self), np.bool_)
        for name, value in wanted.items():
            keep &= self[name] == value
        return self.take(np.flatnonzero(keep))

    def among(self, name: str, values: Iterable[Any]) -> Frame:
        """Return the rows in which a column has one of the given values."""
        wanted = set(values)
        return self.take(np.flatnonzero([value in wanted for value in self[name].tolist()]))

    def take(self, rows: NDArray[np.int64]) -> Frame:
        """Return some rows, by number."""
        return Frame({name: column[rows] for name, column in self.columns.items()})

    def sorted(self, *names: str) -> Frame:
        """Return the rows in ascending order of some columns."""
        return self.take(np.lexsort([self[name] for name in reversed(names)]))

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Frame]]:
        """Yield groups of rows with equal values in the given columns, in order of first appearance."""
        keys: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(zip(*(self[name].tolist() for name in names), strict=True)):
            keys.setdefault(key, []).append(row)
        for key, rows in keys.items():
            yield key, self.take(np.array(rows))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as plain values."""
        for values in zip(*(column.tolist() for column in self.columns.values()), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def table(self, baseline: str = "") -> Table:
        """Return online and offline performance by user and algorithm, with changes and their significance.

        Parameters
        ----------
        baseline
            The algorithm that all others are compared with; without one, each projected algorithm is compared with its base.
        """
        from duelrank.experiments.summary import MEASURES, corrected, summarise
        from duelrank.experiments.tabulate import performance_table

        summaries = [summarise(self, measure, baseline) for measure in MEASURES]
        return performance_table(corrected(summaries), detailed=True)

    def plot(self, column: CurveColumn = "offline_curve") -> Figure:
        """Return the learning curves as a figure, with 95% confidence bands; all runs must be on one data set."""
        from duelrank.experiments.figures import learning_curves

        return learning_curves(self, column)

    def to_latex(self, baseline: str = "") -> str:
        """Return `table` as LaTeX."""
        return self.table(baseline).to_latex()

    def to_markdown(self, baseline: str = "") -> str:
        """Return `table` as Markdown."""
        return self.table(baseline).to_markdown()

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame; curves become columns of arrays."""
        return data_frame(self.columns)

    def __repr__(self) -> str:
        return f"Frame({counted(len(self), 'row')}: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        """Show the first rows without their curves."""
        plain = [
            name for name, column in self.columns.items() if not any(isinstance(v, np.ndarray) for v in column[:1])
        ]
        head = "".join(f"<th>{escape(name)}</th>" for name in plain)
        rows = zip(*(self[name][:_NOTEBOOK_ROWS].tolist() for name in plain), strict=True)
        body = "".join(f"<tr>{''.join(f'<td>{escape(str(v))}</td>' for v in row)}</tr>" for row in rows)
        more = f"<p>{len(self):,} rows, the first {_NOTEBOOK_ROWS} are shown</p>" if len(self) > _NOTEBOOK_ROWS else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _column(values: list[Any]) -> NDArray[Any]:
    if values and isinstance(values[0], (list, tuple, np.ndarray)):
        column = np.empty(len(values), object)
        for row, value in enumerate(values):
            column[row] = np.asarray(value, float)
        return column
    return np.array(values, object if any(value is None for value in values) else None)


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
    One of two runs is finished:

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
        if about.get("format") != _FORMAT:
            self._describe()
        self._read_new_lines()

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
            self._register(digest, self._end + len(line))

    def add_wall_time(self, seconds: float) -> None:
        """Add seconds to the total wall time of the runs in this folder."""
        self.wall_seconds += seconds
        self._describe()

    def load(self) -> Frame:
        """Return all finished runs, in the order in which they were written."""
        return _frame(self._path)

    def _describe(self) -> None:
        about = {"format": _FORMAT, "suite": self.suite, "duelrank": __version__, "wall_seconds": self.wall_seconds}
        with writing(_ABOUT, self.folder):
            write_json(self.folder / _NEW_ABOUT, about)
            (self.folder / _NEW_ABOUT).replace(self.folder / _ABOUT)
            sync_folder(self.folder)

    def _read_new_lines(self) -> None:
        """Read the lines after those already read."""
        for line in _read_lines(self._path, self._end, self._lines):
            self._register(line.row["digest"], line.end)

    def _register(self, digest: str, end: int) -> None:
        self._digests.add(digest)
        self._lines += 1
        self._end = end

    def _truncate(self) -> None:
        """Remove an incomplete last line, left by a kill or a full disk."""
        if os.fstat(self._descriptor).st_size != self._end:
            self._read_new_lines()  # on a file system without locks, another process may have written whole lines
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
    """Return the current names of a recipe: rows of earlier versions may have others. Empty if the recipe is unknown here."""
    try:
        algorithm = parse(recipe, Algorithm)
    except DuelrankError:
        return {}
    base = base_of(algorithm)
    return {"algorithm": spell(algorithm), "base": "" if base is None else spell(base)}


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
        runs = folder / _RUNS
        ours = {_NEW_ABOUT, _LOCK} if runs.exists() and runs.stat().st_size else {_NEW_ABOUT, _LOCK, _RUNS}
        foreign = sorted(path.name for path in folder.iterdir() if path.name not in ours)
        if foreign:
            raise InvalidValue(
                f"{folder} has no {_ABOUT} but other files ({', '.join(foreign[:3])}); "
                "results need a new folder, an empty one, or one that has results already"
            )


def _check_about(folder: Path, suite: str | None) -> None:
    about = _read_about(folder)
    if about["format"] != _FORMAT:
        raise DataFormatError(
            f"{folder} has results in format {about['format']}, written by duelrank {about['duelrank']}; this version "
            f"reads format {_FORMAT}: choose another folder, or use that version"
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


def fingerprint(fold: Fold) -> str:
    """Return a hash, twenty hexadecimal digits, of the queries, the labels and a thousand documents of each split.

    It distinguishes two data sets that were imported from different files under the same name.
    """
    digest = hashlib.blake2b(digest_size=10)
    for split in (fold.train, fold.validation, fold.test):
        sampled = split.features[:: ceil(split.n_documents / _SAMPLED_ROWS) or 1]
        for array in (split.offsets, split.labels, sampled):
            digest.update(array.tobytes())
    return digest.hexdigest()


def provenance(frame: Frame, wall_seconds: float | None = None, command: str = "") -> dict[str, str]:
    """Return the facts about the runs, this machine and the time they took, for the end of a report."""
    folds, seeds = (_ranges(sorted(set(frame[name].tolist()))) for name in ("fold", "seed"))
    busy = float(frame["seconds"].sum() + frame["evaluation_seconds"].sum())
    found = {
        "Runs": f"{len(frame):,}",
        "Data sets": ", ".join(dict.fromkeys(frame["dataset"].tolist())),
        "Folds": folds,
        "Seeds": seeds,
        "Impressions per run": " and ".join(f"{n:,}" for n in sorted(set(frame["impressions"].tolist()))),
        "List length": " and ".join(str(n) for n in sorted(set(frame["length"].tolist()))),
        "Evaluated on": " and ".join(f"{name} queries" for name in sorted(set(frame["split"].tolist()))),
        "Time in runs": f"{duration(busy)}, evaluation included, summed over processes",
        "Wall time": f"{duration(wall_seconds)}, over all sessions that made runs" if wall_seconds else "",
        "Versions": versions(),
        "Machine": machine(),
        "Runs made on": _devices(frame),
        "Command": command,
    }
    return {name: value for name, value in found.items() if value}


def _devices(frame: Frame) -> str:
    """Return the number of runs of each device; empty if all runs were made by the CPU engine."""
    counts = Counter(frame["device"].tolist() if "device" in frame.columns else ())
    return "" if set(counts) <= {"cpu"} else ", ".join(f"{device} ({n:,})" for device, n in sorted(counts.items()))


def versions() -> str:
    """Return the versions of Python and of the numerical packages."""
    found = [f"Python {platform.python_version()}", f"duelrank {__version__}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # SciPy and matplotlib are extras
            continue
    return ", ".join(found)


def machine() -> str:
    """Return processor, number of cores and operating system."""
    cores = os.cpu_count() or 1
    return f"{_processor()}, {cores} core{'s' if cores > 1 else ''}, {_system()}"


def duration(seconds: float) -> str:
    """Return a duration as readable text.

    Examples
    --------
    >>> duration(3.21), duration(75), duration(7_260)
    ('3.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if models:
            return models[0]
    return platform.processor() or platform.machine()


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{platform.system()} {platform.release()}"


def _ranges(numbers: list[int]) -> str:
    """Return sorted whole numbers as text, with consecutive numbers as ranges."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}–{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
