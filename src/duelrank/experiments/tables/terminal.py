"""Writes tables to a terminal; a wide table is split into blocks that repeat the names of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from duelrank.experiments.tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

__all__ = ["to_terminal"]

_GAP = 2  # between columns
_STYLES = {"strong": "bold green", "up": "green", "down": "red", "": ""}
_Columns = Sequence[int]


def to_terminal(table: Table, width: int) -> RenderableType:
    """Return a table that fits into ``width`` characters; no column is lost, and long names take several lines."""
    from rich.console import Group
    from rich.text import Text

    longest = max([len(table.row_head), *(len(name) for row in table.rows for name in (row.name, row.section))])
    names = min(longest, max(16, width // 3))
    blocks = [_block(table, columns, names) for columns in _blocks(table, width - names - 2)]
    notes = Text(" ".join(table.notes).replace("Bold:", "*:").replace("are bold", "have a *"), style="dim")
    recipes = [Text.assemble((f"{label}: ", "bold dim"), (recipe, "dim")) for label, recipe in table.recipes]
    return Group(Text(table.title, style="bold"), *blocks, notes, *recipes, "")


def _blocks(table: Table, room: int) -> Iterator[_Columns]:
    """Fill blocks with columns; columns of a group stay together if they fit into one block."""
    block: list[int] = []
    used, start = 0, 0
    for _, size in table.groups():
        group = list(range(start, start + size))
        start += size
        widths = [_GAP + _width(table, number) for number in group]
        pieces = (
            [(group, sum(widths))] if sum(widths) <= room else [([n], w) for n, w in zip(group, widths, strict=True)]
        )
        for piece, wide in pieces:
            if block and used + wide > room:
                yield block
                block, used = [], 0
            block, used = [*block, *piece], used + wide
    if block:
        yield block


def _width(table: Table, number: int) -> int:
    column = table.columns[number]
    return max(
        len(column.head), *(len(_text(row.cells[number])) for row in table.rows), *map(len, column.group.split())
    )


def _block(table: Table, numbers: _Columns, names: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    block = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    block.add_column(table.row_head, width=names, overflow="fold", style="cyan")
    columns = [table.columns[number] for number in numbers]
    for before, column in zip([None, *columns], columns, strict=False):
        block.add_column(_head(column, before), justify="right", no_wrap=True)
    for section, rows in table.sections():
        if section:
            block.add_row(Text(section, style="bold"))
        for row in rows:
            block.add_row(Text(row.name), *(_styled(row.cells[number]) for number in numbers))
        block.add_section()
    return block


def _head(column: Column, before: Column | None) -> str:
    """Return the column heading, below the heading of its group."""
    if not column.group:
        return column.head
    begins = before is None or before.group != column.group
    return "\n".join([*(column.group.split() if begins else []), column.head])


def _text(cell: Cell) -> str:
    return f"{'*' if cell.style == 'strong' else ''}{cell.text} {cell.detail}".rstrip()


def _styled(cell: Cell) -> Text:
    from rich.text import Text

    mark = "*" if cell.style == "strong" and cell.text else ""
    return Text.assemble((mark + cell.text, _STYLES[cell.style]), (f" {cell.detail}" if cell.detail else "", "dim"))
