"""Tables in Markdown, as GitHub reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from duelrank.experiments.comparison import Spread
from duelrank.experiments.published import Beside, BesideCell, BesideRow
from duelrank.experiments.rendering import words
from duelrank.experiments.rendering.words import Labels
from duelrank.experiments.tables import Cell, Table, TableRow

__all__ = ["to_markdown"]


def to_markdown(table: Table | Beside, labels: Labels | None = None, digits: int | None = None) -> str:
    """Write a table, how to read it, and the exact recipe behind every label.

    Parameters
    ----------
    labels
        From a recipe, user or data set to the short name to print for it.
    digits
        Decimals; without it 1 for online and 3 for offline numbers, as in the paper.
    """
    decimals = words.digits_of(table.measure, digits)
    datasets = [escape(words.name(dataset, labels)) for dataset in table.datasets]
    beside = isinstance(table, Beside)
    heads = [head for dataset in datasets for head in ((dataset, "published", "SE") if beside else (dataset,))]
    rows: tuple[TableRow | BesideRow, ...] = table.rows
    lines = [_line(["user", "algorithm", *heads]), _line(["---", "---", *("---:" for _ in heads)])]
    for user, group in groupby(rows, lambda row: row.user):
        first = escape(words.user_name(user, labels))
        for row in group:
            lines.append(_line([first, escape(words.name(row.algorithm, labels)), *_cells(row, decimals)]))
            first = ""
    how = " ".join(
        words.explanation(
            table, {a: escape(words.name(a, labels)) for a in dict.fromkeys(row.algorithm for row in table.rows)}
        )
    )
    return "\n".join(lines) + f"\n\n{how}\n{_recipes(table, labels)}"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, also inside a table."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", text)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: TableRow | BesideRow, digits: int) -> list[str]:
    if isinstance(row, TableRow):
        return [_cell(cell, digits) for cell in row.cells]
    return [text for cell in row.cells for text in _beside(cell, digits)]


def _spread(value: Spread, digits: int, bold: bool) -> str:
    mean = words.number(value.mean, digits)
    return f"{f'**{mean}**' if bold else mean} {words.deviation(value, digits)}".rstrip()


def _cell(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return ""
    change = words.change(cell)
    return _spread(cell.value, digits, cell.best) + (f" ({change})" if change else "")


def _beside(cell: BesideCell | None, digits: int) -> tuple[str, str, str]:
    if cell is None:
        return "", "", ""
    errors = words.errors(cell.errors)
    return (
        _spread(cell.ours, digits, False),
        _spread(cell.published, digits, False),
        f"**{errors}**" if words.far(cell.errors) else errors,
    )


def _recipes(table: Table | Beside, labels: Labels | None) -> str:
    entries = words.listed((row.algorithm for row in table.rows), labels)
    return "".join(["\n", *(f"- {escape(label)}: {_code(recipe)}\n" for label, recipe in entries)]) if entries else ""


def _code(text: str) -> str:
    """A code span whose fence is longer than any run of backticks inside."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}"
