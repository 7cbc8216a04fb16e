"""Writes tables as HTML for reports and notebooks: headers with a scope, captions, and a container that scrolls."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from duelrank.experiments.tables.table import Table

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["to_html"]


def to_html(table: Table) -> str:
    """Return a table as HTML; all texts in it are escaped.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row, to_html
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70", "3"),)), Row("dbgd", (Cell("30", "2"),))))
    >>> to_html(table).count("<tr")
    3
    """
    grouped = any(column.group for column in table.columns)
    return _template().render(table=table, grouped=grouped)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("duelrank.experiments.tables", ".")
    return Environment(loader=loader, autoescape=True, trim_blocks=True).get_template("table.html.jinja")
