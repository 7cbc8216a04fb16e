"""Writes tables as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from duelrank.experiments.tables.table import Cell, Table

__all__ = ["to_markdown"]


def to_markdown(table: Table) -> str:
    """Return a table, its notes, and the exact recipe of every label.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row, to_markdown
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70", "3"),)), Row("dbgd", (Cell("30", "2"),))))
    >>> print(to_markdown(table))
    | algorithm | µs |
    | --- | ---: |
    | mgd | 70 3 |
    | dbgd | 30 2 |
    """
    sections = [table.section_head] if table.section_head else []
    heads = [*sections, table.row_head, *table.heads()]
    lines = [_line(map(escape, heads)), _line([*("---" for _ in (*sections, "")), *("---:" for _ in table.columns)])]
    for section, rows in table.sections():
        first = [escape(section)] if sections else []
        for row in rows:
            lines.append(_line([*first, escape(row.name), *map(_cell, row.cells)]))
            first = [""] if sections else []
    parts = ["\n".join(lines), escape(" ".join(table.notes)), _recipes(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Escape text for Markdown, including Markdown tables."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", text)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = f"**{escape(cell.text)}**" if cell.style == "strong" and cell.text else escape(cell.text)
    return f"{text} {escape(cell.detail)}".strip()


def _recipes(table: Table) -> str:
    return "\n".join(f"- {escape(label)}: {_code(recipe)}" for label, recipe in table.recipes)


def _code(text: str) -> str:
    """Return a code span whose fence is longer than any run of backticks inside."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}"
