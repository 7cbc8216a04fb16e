"""Makes the tables of performance by user and algorithm, of the league, and of the replication of published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.experiments.results.published import PUBLISHED_RUNS, Replication, ReplicationCell
from duelrank.experiments.results.summary import Estimate, Summary
from duelrank.experiments.tables.table import Cell, Column, Row, Table
from duelrank.experiments.tables.text import (
    DIGITS,
    Labels,
    change_cell,
    deviation,
    label,
    meaning,
    number,
    p_cell,
    recipes,
    runs_note,
    test_notes,
)

__all__ = ["league_table", "performance_table", "replication_table"]

_Writer = Callable[[Estimate | None], Cell]

_COLLAPSED = 0.9  # of the mean; folds of the data sets we know differ by less
_WORST = "Worst run: the lowest of the runs, in percent of their mean."
_Z = 2.0  # number of standard errors above which a difference is unlikely to be chance


def performance_table(
    summaries: Sequence[Summary] | Summary, labels: Labels | None = None, detailed: bool = False, worst: bool = False
) -> Table:
    """Tabulate mean and deviation by user and algorithm, with the change against the baseline and its significance.

    Parameters
    ----------
    summaries
        One or several measures of the same runs, as groups of columns.
    labels
        From a recipe, user or data set to its label.
    detailed
        Whether to add columns with p-values and with the time per impression.
    worst
        Whether to add a column with the worst run, in parts of the mean.

    Examples
    --------
    >>> from duelrank.experiments import compare, performance_table, summarise
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> table = performance_table(summarise(results, "offline"))
    >>> [row.name for row in table.rows]
    ['mgd', 'mgd-dsp']
    """
    summaries = (summaries,) if isinstance(summaries, Summary) else tuple(summaries)
    first = summaries[0]
    places = [(summary, dataset) for summary in summaries for dataset in first.datasets]
    estimates = [each for summary in summaries for each in summary.estimates]
    writers: dict[str, _Writer] = {"mean (sd)": _value}
    if any(each.change is not None for each in estimates):
        writers["change"] = change_cell
    if detailed and any(each.p is not None for each in estimates):
        writers["p"] = p_cell
    if worst:
        writers["worst run"] = _worst
    columns = [Column(head, _group(*place, len(summaries), labels)) for place in places for head in writers]
    rows = []
    for user in first.users:
        for algorithm, base in first.algorithms.items():
            found = [summary.find(dataset, user, algorithm) for summary, dataset in places]
            cells = [write(each) for each in found for write in writers.values()]
            cells += [Cell(_microseconds(found))] if detailed else []
            if any(found):
                rows.append(Row(label(algorithm, labels), tuple(cells), label(user, labels), base or algorithm))
    return Table(
        name="-".join(summary.measure for summary in summaries),
        title=" and ".join(summary.measure for summary in summaries).capitalize() + f" {first.metric}",
        columns=(*columns, *([Column("µs")] if detailed else [])),
        rows=tuple(rows),
        notes=(*_notes(summaries, labels, detailed), *([_WORST] if worst else [])),
        section_head="user",
        recipes=recipes(first.algorithms, labels),
    )


def _group(summary: Summary, dataset: str, n_measures: int, labels: Labels | None) -> str:
    if n_measures == 1:
        return label(dataset, labels)
    return f"{summary.measure} {label(dataset, labels)}" if len(summary.datasets) > 1 else summary.measure


def _value(estimate: Estimate | None) -> Cell:
    if estimate is None:
        return Cell("–")
    digits = DIGITS[estimate.measure]
    text, detail = number(estimate.mean, digits), deviation(estimate.std, digits)
    return Cell(text, detail, "strong" if estimate.best else "", asdict(estimate))


def _worst(estimate: Estimate | None) -> Cell:
    if estimate is None or estimate.worst is None or not estimate.mean:
        return Cell()
    share = estimate.worst / estimate.mean
    return Cell(f"{number(100.0 * share, 0)}%", style="down" if share < _COLLAPSED else "")


def _microseconds(estimates: Sequence[Estimate | None]) -> str:
    return number(float(np.mean([each.microseconds for each in estimates if each])), 1)


def _notes(summaries: Sequence[Summary], labels: Labels | None, detailed: bool) -> Iterator[str]:
    estimates = [each for summary in summaries for each in summary.estimates]
    yield f"{runs_note(each.runs for each in estimates)}."
    yield from (f"{s.measure.capitalize()}: {meaning(s.measure, s.metric)}." for s in summaries)
    yield "Bold: the best with that user on that data set."
    yield from test_notes(summaries, labels)
    if len(devices := summaries[0].devices) > 1:
        yield f"Runs of different devices are mixed here: {', '.join(devices)}. Their random numbers differ, and so do their times."
    if detailed:
        yield "µs: microseconds per impression, without evaluation."


def league_table(summaries: Sequence[Summary], labels: Labels | None = None) -> Table:
    """Tabulate all algorithms on one data set, sorted by the mean of the first measure over the users.

    Parameters
    ----------
    summaries
        The measures of runs on one data set, with equal numbers of runs per algorithm and user.

    Examples
    --------
    >>> from duelrank.experiments import compare, league_table, summarise
    >>> results = compare(["mgd", "dbgd"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> table = league_table([summarise(results, "offline")])
    >>> [row.name for row in table.rows]  # the best first
    ['1. mgd', '2. dbgd']
    """
    first = summaries[0]
    if len(first.datasets) != 1 or len({each.runs for each in first.estimates}) != 1:
        raise InvalidValue("a league table needs one data set and equal numbers of runs per algorithm and user")
    (dataset,) = first.datasets
    places = [(summary, user) for summary in summaries for user in first.users]
    estimates = {(s.measure, each.user, each.algorithm): each for s in summaries for each in s.estimates}
    ranked = sorted(
        first.algorithms, key=lambda a: -sum(estimates[first.measure, user, a].mean for user in first.users)
    )
    rows = [
        Row(
            f"{place}. {label(algorithm, labels)}",
            tuple(_league_cell(estimates[s.measure, user, algorithm]) for s, user in places),
        )
        for place, algorithm in enumerate(ranked, 1)
    ]
    notes = (
        f"{dataset}: means of {first.estimates[0].runs} runs, by the mean {first.measure} performance over the users.",
        *(f"{s.measure.capitalize()}: {meaning(s.measure, s.metric)}." for s in summaries),
        "Bold: the best with that user.",
    )
    columns = tuple(Column(label(user, labels), summary.measure) for summary, user in places)
    listed = recipes(first.algorithms, labels)
    return Table(f"league-{dataset}", f"League on {dataset}", columns, tuple(rows), notes, recipes=listed)


def _league_cell(estimate: Estimate) -> Cell:
    return replace(_value(estimate), detail="")


def replication_table(replication: Replication, labels: Labels | None = None) -> Table:
    """Tabulate our cells beside the published ones: both means, their difference with its standard error, and z."""
    cells = {(cell.user, cell.algorithm, cell.dataset): cell for cell in replication.cells}
    datasets = dict.fromkeys(cell.dataset for cell in replication.cells)
    pairs = dict.fromkeys((cell.user, cell.algorithm) for cell in replication.cells)
    heads = ("ours", "paper", "difference (se)", "z")
    rows = []
    for user, algorithm in pairs:
        found = [cells.get((user, algorithm, dataset)) for dataset in datasets]
        shown = tuple(cell for each in found for cell in _replication_cells(each))
        rows.append(Row(label(algorithm, labels), shown, label(user, labels), algorithm))
    return Table(
        name=f"{replication.measure}-published",
        title=f"{replication.measure.capitalize()} {replication.metric}, ours and published",
        columns=tuple(Column(head, label(dataset, labels)) for dataset in datasets for head in heads),
        rows=tuple(rows),
        notes=tuple(_replication_notes(replication)),
        section_head="user",
        recipes=recipes((algorithm for _, algorithm in pairs), labels),
    )


def _replication_cells(cell: ReplicationCell | None) -> tuple[Cell, ...]:
    if cell is None:
        return Cell("–"), Cell("–"), Cell(), Cell()
    digits = DIGITS[cell.measure]
    far = cell.z is not None and abs(cell.z) > _Z
    return (
        Cell(number(cell.mean, digits), deviation(cell.std, digits), record=asdict(cell)),
        Cell(number(cell.published_mean, digits), deviation(cell.published_std, digits)),
        Cell(number(cell.difference, digits, sign=True), deviation(cell.standard_error, digits)),
        Cell("" if cell.z is None else number(cell.z, 1, sign=True), style="strong" if far else ""),
    )


def _replication_notes(replication: Replication) -> Iterator[str]:
    if replication.cells:
        ours = runs_note(cell.runs for cell in replication.cells)
        what = meaning(replication.measure, replication.metric)
        yield f"{ours} of ours, {PUBLISHED_RUNS} of the paper: {what}."
    yield "Difference: our mean less the published one, with its standard error; z: their ratio."
    yield (
        "Both sides share the folds, so the standard error is that of runs within folds; the paper does not print its "
        "spread within folds, ours in the same cell stands for both."
    )
    close, total = replication.agreement(_Z)
    if total:
        expected = replication.by_chance(_Z)
        yield (
            f"{close} of {total} cells are within {_Z:.0f} standard errors, the others are bold; "
            f"{number(expected, 1)} would be if every cell were an exact replication."
        )
