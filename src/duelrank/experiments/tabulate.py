"""Makes the tables of results: performance, league, replication, guards, logs, and changes of taste."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, replace
from math import isfinite, isnan, nan
from typing import NamedTuple

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.core.grammar import parse
from duelrank.core.registry import counted
from duelrank.experiments.results import Frame
from duelrank.experiments.summary import (
    PUBLISHED_RUNS,
    Estimate,
    Labels,
    MeanCurve,
    Measure,
    Recovery,
    Replication,
    ReplicationCell,
    Summary,
    half_width,
    spread,
    view_bins,
)
from duelrank.experiments.tables import Cell, Column, Row, Table
from duelrank.simulation import Guarded

#: Decimals, as in the paper.
_DIGITS: dict[Measure, int] = {"online": 1, "offline": 3}

_NO_BREAK = "\N{NO-BREAK SPACE}"
_LEVELS = ((0.01, "‡"), (0.05, "†"))
_CellWriter = Callable[[Estimate | None], Cell]

_COLLAPSED = 0.9  # share of the mean; folds of the known data sets differ by less
_WORST_NOTE = "Worst run: the lowest of the runs, in percent of their mean."
_Z = 2.0  # number of standard errors above which a difference is unlikely to be chance
#: A row of a table of guarded runs: the user, the name of the row, its runs, and the unguarded runs of the same recipe.
GuardLine = tuple[str, str, Frame, Frame]
_GuardWriter = Callable[[Frame, Frame], Cell]
#: From the name of a measure to its column in the rows of runs, and its meaning.
BACKFILL_MEASURES: Mapping[str, tuple[str, str]] = {
    "first": ("online_first", "mean metric of the first 1,000 live lists"),
    "final": ("offline_performance", "metric of the final weights on held-out queries"),
}
_LOG_DIGITS = 3
#: A row of a table by length of the log: the user, the name of the row, and its runs in each column, first those without a log.
LogLine = tuple[str, str, Sequence[Frame]]
#: A row of a table of changes: the user, the name of the row, the recovery of each run, and the mean metric of all its lists.
DriftLine = tuple[str, str, Sequence[Recovery], Sequence[float]]


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
    writers: dict[str, _CellWriter] = {"mean (sd)": _value}
    if any(each.change is not None for each in estimates):
        writers["change"] = change_cell
    if detailed and any(each.p is not None for each in estimates):
        writers["p"] = p_cell
    if worst:
        writers["worst run"] = _worst
    columns = [
        Column(head, _group(*place, len(summaries), labels), spare=int(head == "p"))
        for place in places
        for head in writers
    ]
    rows = []
    for user in first.users:
        for algorithm, base in first.algorithms.items():
            found = [summary.find(dataset, user, algorithm) for summary, dataset in places]
            cells = [write(each) for each in found for write in writers.values()]
            if any(found):
                times = [each.microseconds for each in found if each]
                cells += [Cell(number(float(np.mean(times)), 1))] if detailed else []
                rows.append(Row(_label(algorithm, labels), tuple(cells), _label(user, labels), base or algorithm))
    return Table(
        name="-".join(summary.measure for summary in summaries),
        title=" and ".join(summary.measure for summary in summaries).capitalize() + f" {first.metric}",
        columns=(*columns, *([Column("µs", spare=2)] if detailed else [])),
        rows=tuple(rows),
        notes=(*_notes(summaries, labels, detailed), *([_WORST_NOTE] if worst else [])),
        section_head="user",
        recipes=_recipes(first.algorithms, labels),
    )


def _group(summary: Summary, dataset: str, n_measures: int, labels: Labels | None) -> str:
    if n_measures == 1:
        return _label(dataset, labels)
    return f"{summary.measure} {_label(dataset, labels)}" if len(summary.datasets) > 1 else summary.measure


def _value(estimate: Estimate | None) -> Cell:
    if estimate is None:
        return Cell("–")
    digits = _DIGITS[estimate.measure]
    text, detail = number(estimate.mean, digits), _deviation(estimate.std, digits)
    return Cell(text, detail, "strong" if estimate.best else "", asdict(estimate))


def _worst(estimate: Estimate | None) -> Cell:
    if estimate is None or estimate.worst is None or not estimate.mean:
        return Cell()
    share = estimate.worst / estimate.mean
    return Cell(f"{number(100.0 * share, 0)}%", style="down" if share < _COLLAPSED else "")


def _notes(summaries: Sequence[Summary], labels: Labels | None, detailed: bool) -> Iterator[str]:
    estimates = [each for summary in summaries for each in summary.estimates]
    yield f"{_runs_note(each.runs for each in estimates)}."
    yield from (f"{s.measure.capitalize()}: {_meaning(s.measure, s.metric)}." for s in summaries)
    yield "Bold: the best with that user on that data set."
    yield from _test_notes(summaries, labels)
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
            f"{place}. {_label(algorithm, labels)}",
            tuple(replace(_value(estimates[s.measure, user, algorithm]), detail="") for s, user in places),
        )
        for place, algorithm in enumerate(ranked, 1)
    ]
    notes = (
        f"{dataset}: means of {counted(first.estimates[0].runs, 'run')}, by the mean {first.measure} performance over the users.",
        *(f"{s.measure.capitalize()}: {_meaning(s.measure, s.metric)}." for s in summaries),
        "Bold: the best with that user.",
    )
    columns = tuple(Column(_label(user, labels), summary.measure) for summary, user in places)
    listed = _recipes(first.algorithms, labels)
    return Table(f"league-{dataset}", f"League on {dataset}", columns, tuple(rows), notes, recipes=listed)


def replication_table(replication: Replication, labels: Labels | None = None) -> Table:
    """Tabulate our cells and the published ones: both means, their difference with its standard error, and z."""
    cells = {(cell.user, cell.algorithm, cell.dataset): cell for cell in replication.cells}
    datasets = dict.fromkeys(cell.dataset for cell in replication.cells)
    pairs = dict.fromkeys((cell.user, cell.algorithm) for cell in replication.cells)
    heads = ("ours", "paper", "difference (se)", "z")
    rows = []
    for user, algorithm in pairs:
        found = [cells.get((user, algorithm, dataset)) for dataset in datasets]
        shown = tuple(cell for each in found for cell in _replication_cells(each))
        rows.append(Row(_label(algorithm, labels), shown, _label(user, labels), algorithm))
    return Table(
        name=f"{replication.measure}-published",
        title=f"{replication.measure.capitalize()} {replication.metric}, ours and published",
        columns=tuple(Column(head, _label(dataset, labels)) for dataset in datasets for head in heads),
        rows=tuple(rows),
        notes=tuple(_replication_notes(replication)),
        section_head="user",
        recipes=_recipes((algorithm for _, algorithm in pairs), labels),
    )


def _replication_cells(cell: ReplicationCell | None) -> tuple[Cell, ...]:
    if cell is None:
        return Cell("–"), Cell("–"), Cell(), Cell()
    digits = _DIGITS[cell.measure]
    far = cell.z is not None and abs(cell.z) > _Z
    return (
        Cell(number(cell.mean, digits), _deviation(cell.std, digits), record=asdict(cell)),
        Cell(number(cell.published_mean, digits), _deviation(cell.published_std, digits)),
        Cell(number(cell.difference, digits, sign=True), _deviation(cell.standard_error, digits)),
        Cell("" if cell.z is None else number(cell.z, 1, sign=True), style="strong" if far else ""),
    )


def _replication_notes(replication: Replication) -> Iterator[str]:
    if replication.cells:
        ours = _runs_note(cell.runs for cell in replication.cells)
        what = _meaning(replication.measure, replication.metric)
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


class GuardColumn(NamedTuple):
    """A column: its heading, its meaning, the function that writes a cell, and whether runs without a guard have it."""

    head: str
    meaning: str
    write: _GuardWriter
    unguarded: bool = False

    def cell(self, user: str, label: str, runs: Frame, plain: Frame) -> Cell:
        """Return the cell of a row."""
        cell = self.write(runs, plain) if self.unguarded or runs is not plain else Cell("–")
        record = {"user": user, "guard": label, "measure": self.head, **(cell.record or {})}
        return replace(cell, record=record)


def guard_table(name: str, title: str, columns: Sequence[str], lines: Sequence[GuardLine]) -> Table:
    """Tabulate guarded runs by user.

    Parameters
    ----------
    columns
        Names among `GUARD_COLUMNS`.
    """
    chosen = [GUARD_COLUMNS[column] for column in columns]
    rows = [Row(line[1], tuple(column.cell(*line) for column in chosen), line[0]) for line in lines]
    many = _counts(runs for _, _, runs, _ in lines)
    notes = (f"{many} in each row.", *(f"{column.head.capitalize()}: {column.meaning}." for column in chosen))
    heads = tuple(Column(column.head) for column in chosen)
    return Table(name, title, heads, tuple(rows), notes, row_head="guard", section_head="user")


def _counts(frames: Iterable[Sized]) -> str:
    """Return the lowest and the highest number of runs."""
    counts = [len(runs) for runs in frames]
    least, most = min(counts), max(counts)
    return counted(most, "run") if least == most else f"{least} to {most} runs"


def _mean_cell(found: Sequence[float], digits: int) -> Cell:
    """Return mean and standard deviation over runs."""
    if not found:
        return Cell("–")
    mean, std = spread(found)
    return Cell(number(mean, digits), _deviation(std, digits), record={"value": mean, "std": std, "runs": len(found)})


def _median_cell(found: Sequence[float], of: int) -> Cell:
    """Return the median time of an event over the runs in which it happened, and the number of these runs."""
    if not found:
        return Cell("–", f"(0 of {of})", record={"value": None, "runs": 0, "of": of})
    median = float(np.median(found))
    record = {"value": median, "least": min(found), "most": max(found), "runs": len(found), "of": of}
    return Cell(f"{median:,.0f}", f"({len(found)} of {of})", record=record)


def _first_alarm(column: str) -> _GuardWriter:
    """Return a writer of the time from the accident, or from the beginning, to the first alarm after it."""

    def write(runs: Frame, _: Frame) -> Cell:
        found = []
        for row in runs.rows():
            harm = row["guard_harm"]
            lists, decisive = (harm[0], harm[1]) if len(harm) else (0.0, 0.0)
            begin = lists if column == "guard_alarms" else decisive
            after = [value for at, value in zip(row["guard_alarms"], row[column], strict=True) if at > lists]
            found += [float(after[0] - begin)] if after else []
        return _median_cell(found, len(runs))

    return write


def _earlier(runs: Frame, _: Frame) -> Cell:
    rows = list(runs.rows())
    alarmed = sum(bool((row["guard_alarms"] <= row["guard_harm"][0]).any()) for row in rows if len(row["guard_harm"]))
    return Cell(f"{alarmed} of {len(rows)}", record={"value": alarmed, "of": len(rows)})


def _proved(which: int) -> _GuardWriter:
    def write(runs: Frame, _: Frame) -> Cell:
        found = [float(proved[which]) for proved in runs["guard_proved"] if len(proved)]
        return _median_cell([at for at in found if at > 0.0], len(runs))

    return write


def _top_rung(runs: Frame, _: Frame) -> Cell:
    """Return the time until the top of the ladder was first reached; all runs have the same guard."""
    guard = str(runs["guard"][0]) if len(runs) else ""
    steps = len(parse(guard, Guarded).promote) - 1 if guard else 0
    if not steps:
        return Cell("–")
    return _median_cell([float(up[steps - 1]) for up in runs["guard_promotions"] if steps <= len(up)], len(runs))


def _win_rate(runs: Frame, _: Frame) -> Cell:
    found = [float(each[0] / (each[0] + each[1])) for each in runs["guard_outcomes"] if len(each) and each[0] + each[1]]
    return _mean_cell(found, 3)


def _decisive_share(runs: Frame, _: Frame) -> Cell:
    return _mean_cell([float((each[0] + each[1]) / each.sum()) for each in runs["guard_outcomes"] if sum(each)], 2)


def _harmed(runs: Frame, _: Frame) -> Cell:
    return _mean_cell([float(harm[2]) for harm in runs["guard_harm"] if len(harm)], 3)


def _measure(column: str, digits: int) -> _GuardWriter:
    return lambda runs, _: _mean_cell(runs[column].tolist(), digits)


def _paired_differences(runs: Frame, plain: Frame, column: str) -> list[float]:
    """Return the difference in a column between each run and the plain run of the same fold and seed, if there is one."""
    before = {(row["fold"], row["seed"]): row[column] for row in plain.rows()}
    pairs = [(row[column], before.get((row["fold"], row["seed"]))) for row in runs.rows()]
    return [ours - theirs for ours, theirs in pairs if theirs is not None]


def _change(column: str, digits: int) -> _GuardWriter:
    """Return a writer of the mean difference to the unguarded runs of the same folds and seeds, with half its 95% interval."""

    def write(runs: Frame, plain: Frame) -> Cell:
        differences = _paired_differences(runs, plain, column)
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
#: From the name of a column in a suite file to the column.
GUARD_COLUMNS: Mapping[str, GuardColumn] = {
    "earlier": GuardColumn("earlier alarms", "runs with an alarm before the accident", _earlier),
    "alarm": GuardColumn("lists until alarm", _FIRST, _first_alarm("guard_alarms")),
    "decisive": GuardColumn("decisive", "the same in decisive lists", _first_alarm("guard_alarms_decisive")),
    "proved-05": GuardColumn("proved, .05", _PROOF.format(0.05), _proved(0)),
    "proved-01": GuardColumn("proved, .01", _PROOF.format(0.01), _proved(1)),
    "top-rung": GuardColumn("top rung", _TOP, _top_rung),
    "win-rate": GuardColumn("win rate", "wins of the learned ranker among decisive lists", _win_rate),
    "decisive-share": GuardColumn("decisive share", "of guard lists, those with a winner", _decisive_share),
    "after-harm": GuardColumn(
        "after the accident",
        "mean metric of the lists shown after it",
        _harmed,
    ),
    "mean": GuardColumn("mean", "mean metric of all lists shown", _measure("online_mean", 4), True),
    "change": GuardColumn("change of the mean", _AGAINST, _change("online_mean", 4), True),
    "online": GuardColumn("online", "discounted sum of the metric", _measure("online_performance", 1), True),
    "online-change": GuardColumn("change online", _AGAINST, _change("online_performance", 1), True),
    "offline": GuardColumn(
        "offline", "metric of the final weights on held-out queries", _measure("offline_performance", 3), True
    ),
}


def backfill_table(name: str, title: str, measure: str, lists: Sequence[int], lines: Sequence[LogLine]) -> Table:
    """Tabulate a measure by the length of the log.

    Parameters
    ----------
    measure
        A name among `BACKFILL_MEASURES`.
    lists
        Length of the log in each column after the first, which has no log.
    """
    column, meaning = BACKFILL_MEASURES[measure]
    heads = ("no log", *(counted(each, "list") for each in lists))
    rows = []
    for user, label, frames in lines:
        places = [{"user": user, "row": label, "log": head} for head in heads]
        cells = [_log_cell(runs, frames[0], column, place) for runs, place in zip(frames, places, strict=True)]
        rows.append(Row(label, tuple(cells), user))
    many = _counts(runs for _, _, frames in lines for runs in frames)
    against = "In brackets: change against no log, same folds and seeds, ± half the 95% interval; without a log the deviation."
    notes = (f"{many} in each cell: {meaning}.", against)
    return Table(name, title, tuple(map(Column, heads)), tuple(rows), notes, row_head="recipe", section_head="user")


def _log_cell(runs: Frame, cold: Frame, column: str, place: Mapping[str, str]) -> Cell:
    mean, std = spread(runs[column].tolist())
    if runs is cold:
        return Cell(
            number(mean, _LOG_DIGITS), _deviation(std, _LOG_DIGITS), record={**place, "value": mean, "std": std}
        )
    differences = _paired_differences(runs, cold, column)
    change, width = float(np.mean(differences)), half_width(differences)
    surely = not np.isnan(width) and abs(change) > width
    detail = f"({number(change, _LOG_DIGITS, sign=True)} ± {number(width, _LOG_DIGITS)})"
    record = {**place, "value": mean, "change": change, "half_width": None if np.isnan(width) else width}
    return Cell(number(mean, _LOG_DIGITS), detail, ("up" if change > 0.0 else "down") if surely else "", record)


def drift_table(name: str, title: str, window: int, share: float, lines: Sequence[DriftLine]) -> Table:
    """Tabulate runs in which users change their taste.

    Parameters
    ----------
    window, share
        As in `recovery`.
    """
    meanings = {
        "before": f"mean metric of the last {window:,} lists before the change",
        "dip, %": f"how far the mean of {window:,} successive lists falls, in percent of the level before",
        "lost": "metric that is missing in all lists after the change, compared with the level before, as a sum",
        f"lists until {share:.0%}": f"lists from the change until the mean of the last {window:,} is at {share:.0%} of the "
        "level before, median of the runs in which it is, and their number",
        "end": f"mean metric of the last {window:,} lists",
        "all lists": "mean metric of all lists",
    }
    rows = [Row(line[1], tuple(_drift_cells(line, tuple(meanings))), line[0]) for line in lines]
    many = _counts(found for _, _, found, _ in lines)
    notes = (
        f"{many} in each row; in brackets the deviation.",
        *(f"{head.capitalize()}: {text}." for head, text in meanings.items()),
    )
    return Table(name, title, tuple(map(Column, meanings)), tuple(rows), notes, row_head="recipe", section_head="user")


def _drift_cells(line: DriftLine, heads: Sequence[str]) -> Iterator[Cell]:
    user, label, found, means = line
    whole = [each for each in found if not isnan(each.before)]
    cells = (
        _mean_cell([each.before for each in whole], _LOG_DIGITS),
        _mean_cell([100.0 * each.dip for each in whole], 1),
        _mean_cell([each.lost for each in whole], 0),
        _median_cell([each.until for each in whole if isfinite(each.until)], len(whole)),
        _mean_cell([each.end for each in whole], _LOG_DIGITS),
        _mean_cell(means, _LOG_DIGITS),
    )
    for head, cell in zip(heads, cells, strict=True):
        yield replace(cell, record={"user": user, "row": label, "measure": head, **(cell.record or {})})


def views_table(name: str, title: str, curves: Sequence[MeanCurve], labels: Labels | None = None) -> Table:
    """Tabulate the mean metric of lists by the number of earlier lists of their query.

    Parameters
    ----------
    curves
        As from `view_curves`, of one data set.
    """
    heads = view_bins(max(len(curve.mean) for curve in curves))
    rows = []
    for curve in curves:
        place = {"user": _label(curve.user, labels), "row": _label(curve.algorithm, labels)}
        values = dict(zip(heads, curve.mean, strict=False))
        cells = [
            Cell(number(values.get(head, nan), _LOG_DIGITS), record={**place, "views": head, "value": values.get(head)})
            for head in heads
        ]
        rows.append(Row(place["row"], tuple(cells), place["user"], curve.base or curve.algorithm))
    notes = ("Mean metric of the lists whose query had so many earlier lists in its run.",)
    return Table(name, title, tuple(map(Column, heads)), tuple(rows), notes, row_head="recipe", section_head="user")


def number(value: float, digits: int, sign: bool = False) -> str:
    """Format a number, with a true minus sign."""
    if isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}".replace("-", "−")


def _deviation(std: float | None, digits: int) -> str:
    """Format a standard deviation in brackets; empty if there is none."""
    return "" if std is None else f"({number(std, digits)})"


def change_cell(estimate: Estimate | None) -> Cell:
    """Format the relative change with its significance mark; empty if there is no baseline."""
    if estimate is None or estimate.change is None:
        return Cell()
    text = f"{number(100.0 * estimate.change, 1, sign=True)}%{mark(estimate.p)}"
    return Cell(text, style="up" if estimate.change > 0 else "down")


def p_cell(estimate: Estimate | None) -> Cell:
    """Format a p-value; empty if there was no test."""
    if estimate is None or estimate.p is None:
        return Cell()
    return Cell("<0.001" if estimate.p < 0.001 else number(estimate.p, 3))


def mark(p: float | None) -> str:
    """Return the significance mark of a p-value."""
    return next((sign for level, sign in _LEVELS if p is not None and p < level), "")


def _label(text: str, labels: Labels | None) -> str:
    """Return the label of a recipe, user or data set, on one line."""
    return " ".join((labels or {}).get(text, text).split())


def _recipes(algorithms: Iterable[str], labels: Labels | None) -> tuple[tuple[str, str], ...]:
    """Return label and recipe of each algorithm whose label differs from its recipe in more than case."""
    named = ((_label(algorithm, labels), algorithm) for algorithm in dict.fromkeys(algorithms))
    return tuple((name, recipe) for name, recipe in named if name.lower() != recipe)


def _meaning(measure: Measure, metric: str) -> str:
    """Describe a measure."""
    return {
        "online": f"the discounted sum of {metric} over all lists shown while learning",
        "offline": f"{metric} of the final weights on held-out queries",
    }[measure]


def _runs_note(counts: Iterable[int]) -> str:
    """Return the note on the number of runs."""
    fewest, most = min(found := list(counts)), max(found)
    if most == 1:
        return "One run"
    return f"Mean (standard deviation) of {most if fewest == most else f'{fewest} to {most}'} runs"


def _test_notes(summaries: Iterable[Summary], labels: Labels | None) -> Iterable[str]:
    """Return the notes on the baseline of the changes and on their significance tests."""
    summaries = list(summaries)
    shown = sum(each.p is not None for summary in summaries for each in summary.estimates)
    for summary in summaries[:1]:
        if any(each.change is not None for each in summary.estimates):
            rival = (
                _label(summary.baseline, labels)
                if summary.baseline
                else "the same algorithm without projection or memory"
            )
            yield f"Change: of the mean, against {rival}."
        if shown:
            where = "table" if shown == summary.family else "page"
            many = f", corrected by Holm's method for the {summary.family} tests of this {where}" if shown > 1 else ""
            marks = ", ".join(f"{sign} p < {level}".replace(" ", _NO_BREAK) for level, sign in reversed(_LEVELS))
            yield f"{marks}: two-sided paired t-test over common folds and seeds{many}."
            yield from _one_split(summary, labels)


def _one_split(summary: Summary, labels: Labels | None) -> Iterable[str]:
    """Yield a note if a test compares runs that all have the same test queries."""
    alone = dict.fromkeys(each.dataset for each in summary.estimates if each.p is not None and each.folds == 1)
    if alone:
        names = ", ".join(_label(dataset, labels) for dataset in alone)
        yield f"All runs on {names} are of one split: the tests say nothing about other queries."
