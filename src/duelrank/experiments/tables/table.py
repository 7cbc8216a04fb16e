"""The one model of a table: a plain value with a title, columns, rows of cells and notes, which every format writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from duelrank.experiments.results.frame import data_frame

if TYPE_CHECKING:
    import pandas

__all__ = ["Cell", "Column", "Row", "Table"]

Style = Literal["", "strong", "up", "down"]


@dataclass(frozen=True)
class Cell:
    """One cell as it is printed, and what it says in full.

    Parameters
    ----------
    text, detail
        What is printed; the detail, such as a standard deviation in brackets, is printed smaller behind the text.
    style
        "strong" for the best of its column, "up" and "down" for changes.
    record
        Names and unrounded numbers, which become a line of CSV and a row of a data frame; None where another cell has them.
    """

    text: str = ""
    detail: str = ""
    style: Style = ""
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Column:
    """A column; neighbours of the same group share a heading."""

    head: str
    group: str = ""


@dataclass(frozen=True)
class Row:
    """A row: what it is called, such as an algorithm, and a cell per column.

    Parameters
    ----------
    section
        What this row and its neighbours have in common, such as a user.
    family
        Rows of a family, such as an algorithm and its projections, are printed close together.
    """

    name: str
    cells: tuple[Cell, ...]
    section: str = ""
    family: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    name
        For file names, such as "online".
    columns
        All but the first column, which has the names of the rows.
    row_head, section_head
        What the names of rows and of sections are.
    notes
        Sentences that say how to read the table.
    recipes
        The exact recipe of every label in it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    row_head: str = "algorithm"
    section_head: str = ""
    recipes: tuple[tuple[str, str], ...] = ()

    def heads(self) -> list[str]:
        """Return the headings for formats that have one line for them: the first column of a group names it."""
        befores = ["", *(column.group for column in self.columns)]
        return [
            f"{column.group}: {column.head}" if column.group != before else column.head
            for before, column in zip(befores, self.columns, strict=False)
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Return the headings that columns share, each with its number of columns; empty headings too."""
        return [(group, len(list(columns))) for group, columns in groupby(self.columns, lambda c: c.group)]

    def sections(self) -> list[tuple[str, list[Row]]]:
        """Return the rows by section."""
        return [(section, list(rows)) for section, rows in groupby(self.rows, lambda row: row.section)]

    def records(self) -> list[dict[str, Any]]:
        """Return the numbers of all cells in full, one record per cell."""
        return [dict(cell.record) for row in self.rows for cell in row.cells if cell.record is not None]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with a row per cell."""
        return data_frame(self.records())

    def __repr__(self) -> str:
        return f"Table({self.title!r}: {len(self.rows)} rows, {len(self.columns)} columns)"

    def __str__(self) -> str:
        from duelrank.experiments.tables.markdown import to_markdown

        return to_markdown(self)

    def _repr_html_(self) -> str:
        from duelrank.experiments.tables.html import to_html

        return to_html(self)
