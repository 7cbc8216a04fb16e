"""Writes tables as CSV: one line per cell, with unrounded numbers."""

from __future__ import annotations

import csv
import io

from duelrank.experiments.tables.table import Table

__all__ = ["to_csv"]


def to_csv(table: Table) -> str:
    """Return one line per cell; missing values, such as the change of the baseline itself, are empty.

    Examples
    --------
    >>> from duelrank.experiments import compare, performance_table, summarise
    >>> from duelrank.experiments.tables import to_csv
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> text = to_csv(performance_table(summarise(results, "offline")))
    >>> len(text.splitlines())  # with the names of the columns
    3
    """
    records = table.records()
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
