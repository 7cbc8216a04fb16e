"""The paper's tables, and the league, on a terminal."""

from __future__ import annotations

from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from duelrank.experiments.league import League
from duelrank.experiments.rendering import words
from duelrank.experiments.rendering.standings import explanation, league_rows
from duelrank.experiments.tables import Cell, Table

__all__ = ["league_report", "table_report"]


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
    how = " ".join(words.explanation(table, labels)).replace("Bold:", "*:")
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


def league_report(league: League, labels: words.Labels) -> RenderableType:
    """Show the league: a line per algorithm, the best with each user marked, and how to read it."""
    head, *rows = league_rows(league, labels, lambda text: f"*{text}")
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, name in enumerate(head):
        measured = number != 1
        shown.add_column(name.replace(" ", "\n", 1), justify="right" if measured else "left", no_wrap=True)
    for place, name, *numbers in rows:
        cells = [Text(text, style="bold green" if text.startswith("*") else "") for text in numbers]
        shown.add_row(place, Text(name, style="cyan"), *cells)
    how = explanation(league).replace("Bold:", "*:")
    return Group(Text(f"League on {league.dataset}", style="bold"), shown, Text(how, style="dim"), "")
