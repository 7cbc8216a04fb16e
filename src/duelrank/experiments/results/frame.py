"""Defines `Frame`: the results of many runs in columns, for summaries, tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import UnknownName
from duelrank.simulation.run import data_frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from duelrank.experiments.figures import CurveColumn
    from duelrank.experiments.tables import Table
    from duelrank.simulation import Record

__all__ = ["Frame"]

_SHOWN = 10  # rows in a notebook


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

    @classmethod
    def of_records(cls, records: Iterable[Record]) -> Frame:
        """Make a frame of finished runs."""
        return cls.of(record.row() for record in records)

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
        from duelrank.experiments.results.summary import MEASURES, corrected, summarise
        from duelrank.experiments.tables import performance_table

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
        return f"Frame({len(self)} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        """Show the first rows without their curves."""
        plain = [name for name, column in self.columns.items() if not _is_curves(column)]
        head = "".join(f"<th>{escape(name)}</th>" for name in plain)
        rows = zip(*(self[name][:_SHOWN].tolist() for name in plain), strict=True)
        body = "".join(f"<tr>{''.join(f'<td>{escape(str(v))}</td>' for v in row)}</tr>" for row in rows)
        more = f"<p>{len(self):,} rows, the first {_SHOWN} are shown</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _is_curves(column: NDArray[Any]) -> bool:
    return len(column) > 0 and isinstance(column[0], np.ndarray)


def _column(values: list[Any]) -> NDArray[Any]:
    if values and isinstance(values[0], (list, tuple, np.ndarray)):
        column = np.empty(len(values), object)
        for row, value in enumerate(values):
            column[row] = np.asarray(value, float)
        return column
    return np.array(values, object if any(value is None for value in values) else None)
