"""Tables in HTML, for the report: headers with a scope, captions, and a container of their own to scroll in."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from duelrank.experiments.comparison import Spread
from duelrank.experiments.published import Beside, BesideCell, BesideRow
from duelrank.experiments.rendering import words
from duelrank.experiments.rendering.words import Labels
from duelrank.experiments.tables import Cell, Table, TableRow

__all__ = ["to_html"]


def to_html(table: Table | Beside, labels: Labels | None = None, digits: int | None = None) -> str:
    """Write a table that the report can hold; it lists the recipes itself, once for all tables.

    Parameters
    ----------
    labels
        From a recipe, user or data set to the short name to print for it.
    digits
        Decimals; without it 1 for online and 3 for offline numbers, as in the paper.
    """
    title = escape(words.title(table))
    caption = f"<caption><strong>{title}.</strong> {escape(' '.join(words.explanation(table, labels)))}</caption>"
    kind = "beside" if isinstance(table, Beside) else "plain"
    return "\n".join(
        [
            f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">',
            f'<table class="{kind}">{caption}',
            *_head(table, labels),
            *_bodies(table, labels, words.digits_of(table.measure, digits)),
            "</table></div>",
        ]
    )


def _head(table: Table | Beside, labels: Labels | None) -> Iterator[str]:
    names = [escape(words.name(dataset, labels)) for dataset in table.datasets]
    if not isinstance(table, Beside):
        heads = "".join(f'<th scope="col">{name}</th>' for name in names)
        yield f'<thead><tr><th scope="col">algorithm</th>{heads}</tr></thead>'
        return
    groups = "".join(f'<th scope="colgroup" colspan="3">{name}</th>' for name in names)
    parts = "".join(f'<th scope="col">{part}</th>' for _ in names for part in ("ours", "published", "SE"))
    yield f'<thead><tr><th scope="col" rowspan="2">algorithm</th>{groups}</tr><tr>{parts}</tr></thead>'


def _bodies(table: Table | Beside, labels: Labels | None, digits: int) -> Iterator[str]:
    """A body per user, which a row of its own names: beside the algorithms it would take a phone's whole width."""
    rows: tuple[TableRow | BesideRow, ...] = table.rows
    changes = isinstance(table, Table) and any(
        cell and cell.change is not None for row in table.rows for cell in row.cells
    )
    columns = 1 + len(table.datasets) * (3 if isinstance(table, Beside) else 1)
    for user, group in groupby(rows, lambda row: row.user):
        name = escape(words.user_name(user, labels))
        yield f'<tbody><tr><th scope="rowgroup" colspan="{columns}"><span>{name}</span></th></tr>'
        for row in group:
            kind = ' class="projected"' if isinstance(row, TableRow) and row.base else ""
            head = f'<th scope="row">{escape(words.name(row.algorithm, labels))}</th>'
            yield f"<tr{kind}>{head}{''.join(_row(row, digits, changes))}</tr>"
        yield "</tbody>"


def _row(row: TableRow | BesideRow, digits: int, changes: bool) -> Iterator[str]:
    if isinstance(row, TableRow):
        yield from (_cell(cell, digits, changes) for cell in row.cells)
    else:
        yield from (_beside(cell, digits) for cell in row.cells)


def _cell(cell: Cell | None, digits: int, changes: bool) -> str:
    if cell is None:
        return '<td class="none">–</td>'
    change = words.change(cell)
    kind = "" if cell.change is None else " up" if cell.change > 0 else " down"
    after = f' <span class="change{kind}">{change}</span>' if changes else ""  # empty, it keeps numbers in line
    return f"<td>{_spread(cell.value, digits, cell.best)}{after}</td>"


def _beside(cell: BesideCell | None, digits: int) -> str:
    if cell is None:
        return '<td class="none">–</td>' * 3
    errors = words.errors(cell.errors)
    last = f"<strong>{errors}</strong>" if words.far(cell.errors) else errors
    return f"<td>{_spread(cell.ours, digits)}</td><td>{_spread(cell.published, digits)}</td><td>{last}</td>"


def _spread(value: Spread, digits: int, best: bool = False) -> str:
    mean, deviation = words.number(value.mean, digits), words.deviation(value, digits)
    return (f"<strong>{mean}</strong>" if best else mean) + (f" <small>{deviation}</small>" if deviation else "")
