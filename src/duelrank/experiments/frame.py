"""Results as columns: the one shape that tables, figures and reports read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import UnknownName

__all__ = ["Frame"]


class Frame:
    """Columns of equal length, one row per run.

    Text and numbers are plain arrays; a column of curves is an object array of float arrays.

    Examples
    --------
    >>> frame = Frame.of([{"user": "perfect", "online": 800.0}, {"user": "perfect", "online": 820.0}])
    >>> frame["online"].mean()
    np.float64(810.0)
    >>> [(key, len(rows)) for key, rows in frame.groups("user")]
    [(('perfect',), 2)]
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self.columns: dict[str, NDArray[Any]] = dict(columns)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Frame:
        """Make a frame of rows that all have the same names."""
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
        """Return the rows in which each named column has the wanted value."""
        keep = np.ones(len(self), np.bool_)
        for name, value in wanted.items():
            keep &= self[name] == value
        return self.take(np.flatnonzero(keep))

    def among(self, name: str, values: Iterable[Any]) -> Frame:
        """Return the rows in which a column has one of some values."""
        wanted = set(values)
        return self.take(np.flatnonzero([value in wanted for value in self[name].tolist()]))

    def take(self, rows: NDArray[np.int64]) -> Frame:
        """Return some rows, by number."""
        return Frame({name: column[rows] for name, column in self.columns.items()})

    def sorted(self, *names: str) -> Frame:
        """Return the rows in ascending order of some columns."""
        return self.take(np.lexsort([self[name] for name in reversed(names)]))

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Frame]]:
        """Yield the rows that share their values in some columns, in the order in which these first appear."""
        keys: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(zip(*(self[name].tolist() for name in names), strict=True)):
            keys.setdefault(key, []).append(row)
        for key, rows in keys.items():
            yield key, self.take(np.array(rows))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as plain values."""
        for values in zip(*(column.tolist() for column in self.columns.values()), strict=True):
            yield dict(zip(self.columns, values, strict=True))


def _column(values: list[Any]) -> NDArray[Any]:
    if values and isinstance(values[0], (list, tuple, np.ndarray)):
        column = np.empty(len(values), object)
        for row, value in enumerate(values):
            column[row] = np.asarray(value, float)
        return column
    return np.array(values, object if any(value is None for value in values) else None)
