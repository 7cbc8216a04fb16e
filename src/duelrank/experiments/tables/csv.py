"""Writes tables as CSV: one line per cell, with unrounded numbers."""

from __future__ import annotations

import csv
import io

from duelrank.experiments.tables.table import Table

__all__ = ["to_csv"]


def to_csv(table: Table) -> str:
    """Return one line per cell; missing values, such as the change of the baseline itself, are empty."""
    records = table.records()
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
