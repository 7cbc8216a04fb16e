"""Makes the tables of guarded runs: alarms, proofs of gain, and what a guard costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from duelrank.core.grammar import parse
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.significance import half_width
from duelrank.experiments.results.summary import spread
from duelrank.experiments.tables.table import Cell, Column, Row, Table
from duelrank.experiments.tables.text import deviation, number
from duelrank.simulation import Guarded

__all__ = ["GUARD_COLUMNS", "guard_table", "paired_differences"]

#: A row of such a table: the user, the name of the row, its runs, and the unguarded runs of the same recipe.
Line = tuple[str, str, Frame, Frame]
_Writer = Callable[[Frame, Frame], Cell]


class GuardColumn(NamedTuple):
    """A column: its heading, what it means, what writes it, and whether runs without a guard have it, too."""

    head: str
    meaning: str
    write: _Writer
    unguarded: bool = False

    def cell(self, user: str, label: str, runs: Frame, plain: Frame) -> Cell:
        """Return the cell of a row."""
        cell = self.write(runs, plain) if self.unguarded or runs is not plain else Cell("–")
        record = {"user": user, "guard": label, "measure": self.head, **(cell.record or {})}
        return replace(cell, record=record)


def guard_table(name: str, title: str, columns: Sequence[str], lines: Sequence[Line]) -> Table:
    """Tabulate guarded runs by user.

    Parameters
    ----------
    columns
        Names among `GUARD_COLUMNS`.
    """
    chosen = [GUARD_COLUMNS[column] for column in columns]
    rows = [Row(line[1], tuple(column.cell(*line) for column in chosen), line[0]) for line in lines]
    counts = sorted({len(runs) for _, _, runs, _ in lines})
    many = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    notes = (f"{many} runs in each row.", *(f"{column.head.capitalize()}: {column.meaning}." for column in chosen))
    heads = tuple(Column(column.head) for column in chosen)
    return Table(name, title, heads, tuple(rows), notes, row_head="guard", section_head="user")


def _values(found: Sequence[float], digits: int) -> Cell:
    """Return mean and standard deviation over runs."""
    if not found:
        return Cell("–")
    mean, std = spread(found)
    return Cell(number(mean, digits), deviation(std, digits), record={"value": mean, "std": std, "runs": len(found)})


def _times(found: Sequence[float], of: int) -> Cell:
    """Return the median over those runs in which something has happened, and how many they are."""
    if not found:
        return Cell("–", f"(0 of {of})", record={"value": None, "runs": 0, "of": of})
    median = float(np.median(found))
    record = {"value": median, "least": min(found), "most": max(found), "runs": len(found), "of": of}
    return Cell(f"{median:,.0f}", f"({len(found)} of {of})", record=record)


def _after_harm(runs: Frame, column: str) -> list[float]:
    """Return how long after the accident, or after the beginning, each run had its first alarm; runs without one are left out."""
    found = []
    for row in runs.rows():
        harm = row["guard_harm"]
        lists, decisive = (harm[0], harm[1]) if len(harm) else (0.0, 0.0)
        begin = lists if column == "guard_alarms" else decisive
        after = [value for at, value in zip(row["guard_alarms"], row[column], strict=True) if at > lists]
        found += [float(after[0] - begin)] if after else []
    return found


def _earlier(runs: Frame, _: Frame) -> Cell:
    rows = list(runs.rows())
    alarmed = sum(bool((row["guard_alarms"] <= row["guard_harm"][0]).any()) for row in rows if len(row["guard_harm"]))
    return Cell(f"{alarmed} of {len(rows)}", record={"value": alarmed, "of": len(rows)})


def _alarm(runs: Frame, _: Frame) -> Cell:
    return _times(_after_harm(runs, "guard_alarms"), len(runs))


def _decisive(runs: Frame, _: Frame) -> Cell:
    return _times(_after_harm(runs, "guard_alarms_decisive"), len(runs))


def _proved(which: int) -> _Writer:
    def write(runs: Frame, _: Frame) -> Cell:
        found = [float(proved[which]) for proved in runs["guard_proved"] if len(proved)]
        return _times([at for at in found if at > 0.0], len(runs))

    return write


def _top_rung(runs: Frame, _: Frame) -> Cell:
    """Return when the top of the ladder was first reached; all runs have the same guard."""
    steps = _rungs(str(runs["guard"][0])) - 1 if len(runs) else 0
    if not steps:
        return Cell("–")
    return _times([float(up[steps - 1]) for up in runs["guard_promotions"] if steps <= len(up)], len(runs))


def _rungs(guard: str) -> int:
    return len(parse(guard, Guarded).promote) if guard else 1


def _win_rate(runs: Frame, _: Frame) -> Cell:
    found = [float(each[0] / (each[0] + each[1])) for each in runs["guard_outcomes"] if len(each) and each[0] + each[1]]
    return _values(found, 3)


def _decisive_share(runs: Frame, _: Frame) -> Cell:
    return _values([float((each[0] + each[1]) / each.sum()) for each in runs["guard_outcomes"] if len(each)], 2)


def _harmed(runs: Frame, _: Frame) -> Cell:
    return _values([float(harm[2]) for harm in runs["guard_harm"] if len(harm)], 3)


def _measure(column: str, digits: int) -> _Writer:
    return lambda runs, _: _values(runs[column].tolist(), digits)


def paired_differences(runs: Frame, plain: Frame, column: str) -> list[float]:
    """Return how much more each run has in a column than the plain run of the same fold and seed, where there is one."""
    before = {(row["fold"], row["seed"]): row[column] for row in plain.rows()}
    pairs = [(row[column], before.get((row["fold"], row["seed"]))) for row in runs.rows()]
    return [ours - theirs for ours, theirs in pairs if theirs is not None]


def _change(column: str, digits: int) -> _Writer:
    """Return the mean difference to the unguarded runs of the same folds and seeds, with half its 95% interval."""

    def write(runs: Frame, plain: Frame) -> Cell:
        differences = paired_differences(runs, plain, column)
        if not differences or runs is plain:
            return Cell()
        mean, width = float(np.mean(differences)), half_width(differences)
        record = {"value": mean, "half_width": None if np.isnan(width) else width, "runs": len(differences)}
        detail = "" if np.isnan(width) else f"± {number(width, digits)}"
        return Cell(number(mean, digits, sign=True), detail, record=record)

    return write


_FIRST = "median lists until the first alarm after the accident (or the beginning), and in how many runs there was one"
_PROOF = "median lists until gain was first proved at level {}, and in how many runs it was"
_TOP = "median lists until the top of the ladder, and in how many runs it was reached"
_AGAINST = "against no guard, same folds and seeds, ± half the 95% interval"
#: From the name of a column in a suite file.
GUARD_COLUMNS: Mapping[str, GuardColumn] = {
    "earlier": GuardColumn("earlier alarms", "runs with an alarm before the accident", _earlier),
    "alarm": GuardColumn("lists until alarm", _FIRST, _alarm),
    "decisive": GuardColumn("decisive", "the same in decisive lists", _decisive),
    "proved-05": GuardColumn("proved, .05", _PROOF.format(0.05), _proved(0)),
    "proved-01": GuardColumn("proved, .01", _PROOF.format(0.01), _proved(1)),
    "top-rung": GuardColumn("top rung", _TOP, _top_rung),
    "win-rate": GuardColumn("win rate", "wins of the learned ranker among decisive lists", _win_rate),
    "decisive-share": GuardColumn("decisive share", "of guard lists, those with a winner", _decisive_share),
    "after-harm": GuardColumn("after the accident", "mean metric of the lists shown after it", _harmed),
    "mean": GuardColumn("mean", "mean metric of all lists shown", _measure("online_mean", 4), True),
    "change": GuardColumn("change of the mean", _AGAINST, _change("online_mean", 4), True),
    "online": GuardColumn("online", "discounted sum of the metric", _measure("online_performance", 1), True),
    "online-change": GuardColumn("change online", _AGAINST, _change("online_performance", 1), True),
    "offline": GuardColumn(
        "offline", "metric of the final weights on held-out queries", _measure("offline_performance", 3), True
    ),
}
