"""The paper's tables on a terminal."""

from __future__ import annotations

from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from duelrank.experiments.rendering import words
from duelrank.experiments.tables import Cell, Table

__all__ = ["table_report"]


def table_report(table: Table, labels: words.Labels) -> RenderableType:
    """Show a table of a suite: a section for each user, the best of each data set marked, and how to read it."""
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("user", style="dim", no_wrap=True)
    shown.add_column("algorithm", style="cyan", no_wrap=True)
    for dataset in table.datasets:
        shown.add_column(words.name(dataset, labels), justify="right", no_wrap=True)
        shown.add_column("vs base", justify="right", no_wrap=True)
    digits = words.digits_of(table.measure, None)
    for user, rows in groupby(table.rows, lambda row: row.user):
        name = user
        for row in rows:
            cells = [text for cell in row.cells for text in _cell(cell, digits)]
            shown.add_row(name, words.name(row.algorithm, labels), *cells)
            name = ""
        shown.add_section()
    how = " ".join(words.explanation(table)).replace("Bold:", "*:")
    return Group(Text(words.title(table), style="bold"), shown, Text(how, style="dim"), "")


def _cell(cell: Cell | None, digits: int) -> tuple[Text, Text]:
    """Mean and deviation, and the change against the base with room for the mark of its significance."""
    if cell is None:
        return Text(""), Text("")
    mean = words.number(cell.value.mean, digits)
    value = Text.assemble(
        (f"*{mean}", "bold green") if cell.best else mean, (f" {words.deviation(cell.value, digits)}", "dim")
    )
    change = words.change(cell)
    marked = change if not change or change[-1] != "%" else f"{change}\u00a0"
    return value, Text(marked, style="green" if (cell.change or 0) > 0 else "red")
