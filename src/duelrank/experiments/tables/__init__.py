"""Defines the table model, and writes tables as Markdown, CSV, LaTeX, HTML and to the terminal."""

from duelrank.experiments.tables.backfill import BACKFILL_MEASURES, backfill_table
from duelrank.experiments.tables.csv import to_csv
from duelrank.experiments.tables.guard import GUARD_COLUMNS, guard_table
from duelrank.experiments.tables.html import to_html
from duelrank.experiments.tables.latex import to_latex
from duelrank.experiments.tables.markdown import to_markdown
from duelrank.experiments.tables.performance import league_table, performance_table, replication_table
from duelrank.experiments.tables.table import Cell, Column, Row, Table
from duelrank.experiments.tables.terminal import to_terminal

__all__ = [
    "BACKFILL_MEASURES",
    "GUARD_COLUMNS",
    "Cell",
    "Column",
    "Row",
    "Table",
    "backfill_table",
    "guard_table",
    "league_table",
    "performance_table",
    "replication_table",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_terminal",
]
