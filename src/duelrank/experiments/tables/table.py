"""Defines the table model that all output formats share: a title, columns, rows of cells and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from duelrank.simulation.run import data_frame

if TYPE_CHECKING:
    import pandas

__all__ = ["Cell", "Column", "Row", "Table"]

Style = Literal["", "strong", "up", "down"]


@dataclass(frozen=True)
class Cell:
    """One cell: its printed text, and its unrounded values.

    Parameters
    ----------
    text, detail
        The printed text; the detail, such as a standard deviation in brackets, follows it in smaller print.
    style
        "strong" for the best of its column, "up" and "down" for changes.
    record
        Names and unrounded numbers, which become a line of CSV and a row of a data frame; None if another cell has them.
    """

    text: str = ""
    detail: str = ""
    style: Style = ""
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Column:
    """A column; adjacent columns of the same group share a heading."""

    head: str
    group: str = ""


@dataclass(frozen=True)
class Row:
    """A row: its name, such as an algorithm, and one cell per column.

    Parameters
    ----------
    section
        The section that the row belongs to, such as a user.
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
        The stem of file names, such as "online".
    columns
        All columns except the first, which contains the names of the rows.
    row_head, section_head
        The headings of the names of rows and of sections.
    notes
        Sentences that explain the table.
    recipes
        The exact recipe of every label.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70"),)), Row("dbgd", (Cell("30"),))))
    >>> {row.name: row.cells[0].text for row in table.rows}
    {'mgd': '70', 'dbgd': '30'}
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
        """Return the headings for formats with one heading line: the first column of a group includes the group's name."""
        befores = ["", *(column.group for column in self.columns)]
        return [
            f"{column.group}: {column.head}" if column.group and column.group != before else column.head
            for before, column in zip(befores, self.columns, strict=False)
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Return the group headings, including empty ones, each with its number of columns."""
        return [(group, len(list(columns))) for group, columns in groupby(self.columns, lambda c: c.group)]

    def sections(self) -> list[tuple[str, list[Row]]]:
        """Return the rows by section."""
        return [(section, list(rows)) for section, rows in groupby(self.rows, lambda row: row.section)]

    def records(self) -> list[dict[str, Any]]:
        """Return the unrounded numbers of all cells, one record per cell."""
        return [dict(cell.record) for row in self.rows for cell in row.cells if cell.record is not None]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with a row per cell."""
        return data_frame(self.records())

    def __repr__(self) -> str:
        return f"Table({self.title!r}: {len(self.rows)} rows, {len(self.columns)} columns)"

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        from duelrank.experiments.tables.markdown import to_markdown

        return to_markdown(self)

    def to_html(self) -> str:
        """Return the table as HTML."""
        from duelrank.experiments.tables.html import to_html

        return to_html(self)

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the packages booktabs and multirow."""
        from duelrank.experiments.tables.latex import to_latex

        return to_latex(self)

    def to_csv(self) -> str:
        """Return the unrounded numbers as CSV, a line per cell."""
        from duelrank.experiments.tables.csv import to_csv

        return to_csv(self)

    __str__ = to_markdown
    _repr_html_ = to_html
