"""Tables as comma-separated values: a line per cell, numbers in full."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from duelrank.experiments.published import Beside
from duelrank.experiments.rendering import words
from duelrank.experiments.rendering.words import Labels
from duelrank.experiments.tables import Table

__all__ = ["to_csv"]

_TABLE = ("runs", "mean", "std", "change", "pairs", "p", "best")
_BESIDE = ("runs", "mean", "std", "published", "published_mean", "published_std", "errors")


def to_csv(table: Table | Beside, labels: Labels | None = None) -> str:
    """Write a line per cell; what does not exist, such as the change of an algorithm without a base, is empty."""
    beside = isinstance(table, Beside)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("measure", "metric", "user", "algorithm", "label", "base", "dataset", *_TABLE)
        if not beside
        else ("measure", "metric", "user", "algorithm", "label", "dataset", *_BESIDE)
    )
    writer.writerows(_beside_lines(table, labels) if isinstance(table, Beside) else _table_lines(table, labels))
    return text.getvalue()


def _table_lines(table: Table, labels: Labels | None) -> Iterator[tuple[object, ...]]:
    for row in table.rows:
        label = words.name(row.algorithm, labels)
        for dataset, cell in zip(table.datasets, row.cells, strict=True):
            if cell:
                place = (table.measure, table.metric, row.user, row.algorithm, label, row.base, dataset)
                value = (cell.runs, cell.value.mean, cell.value.std)
                yield *place, *value, cell.change, cell.pairs, cell.p, int(cell.best)


def _beside_lines(table: Beside, labels: Labels | None) -> Iterator[tuple[object, ...]]:
    for row in table.rows:
        label = words.name(row.algorithm, labels)
        for dataset, cell in zip(table.datasets, row.cells, strict=True):
            if cell:
                place = (table.measure, table.metric, row.user, row.algorithm, label, dataset)
                ours = (cell.runs, cell.ours.mean, cell.ours.std)
                yield *place, *ours, row.name, cell.published.mean, cell.published.std, cell.errors
