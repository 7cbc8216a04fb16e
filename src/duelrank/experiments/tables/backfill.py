"""Makes the tables of runs that began with a log: what the log was worth, against the same runs without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.significance import half_width
from duelrank.experiments.results.summary import spread
from duelrank.experiments.tables.guard import paired_differences
from duelrank.experiments.tables.table import Cell, Column, Row, Table
from duelrank.experiments.tables.text import deviation, number

__all__ = ["BACKFILL_MEASURES", "backfill_table"]

#: From the name of a measure to its column in the rows of runs, and what it means.
BACKFILL_MEASURES: Mapping[str, tuple[str, str]] = {
    "first": ("online_first", "mean metric of the first 1,000 live lists"),
    "final": ("offline_performance", "metric of the final weights on held-out queries"),
}
_DIGITS = 3
#: A row of such a table: the user, the name of the row, and its runs in each column; those of the first have no log.
Line = tuple[str, str, Sequence[Frame]]


def backfill_table(name: str, title: str, measure: str, lists: Sequence[int], lines: Sequence[Line]) -> Table:
    """Tabulate a measure by the length of the log.

    Parameters
    ----------
    measure
        A name among `BACKFILL_MEASURES`.
    lists
        Of the log in each column but the first, which has none.
    """
    column, meaning = BACKFILL_MEASURES[measure]
    heads = ("no log", *(f"{each:,} lists" for each in lists))
    rows = [
        Row(
            label,
            tuple(_cell(each, cold, column, {"user": user, "row": label, "log": head}) for head, each in named),
            user,
        )
        for user, label, (cold, *warm) in lines
        for named in [list(zip(heads, (cold, *warm), strict=True))]
    ]
    counts = sorted({len(runs) for _, _, frames in lines for runs in frames})
    many = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    against = "In brackets: change against no log, same folds and seeds, ± half the 95% interval; without a log the deviation."
    notes = (f"{many} runs in each cell: {meaning}.", against)
    return Table(
        name, title, tuple(Column(head) for head in heads), tuple(rows), notes, row_head="recipe", section_head="user"
    )


def _cell(runs: Frame, cold: Frame, column: str, place: Mapping[str, str]) -> Cell:
    mean, std = spread(runs[column].tolist())
    if runs is cold:
        return Cell(number(mean, _DIGITS), deviation(std, _DIGITS), record={**place, "value": mean, "std": std})
    differences = paired_differences(runs, cold, column)
    change, width = float(np.mean(differences)), half_width(differences)
    surely = not np.isnan(width) and abs(change) > width
    detail = f"({number(change, _DIGITS, sign=True)} ± {number(width, _DIGITS)})"
    record = {**place, "value": mean, "change": change, "half_width": None if np.isnan(width) else width}
    return Cell(number(mean, _DIGITS), detail, ("up" if change > 0.0 else "down") if surely else "", record)
