"""Formats numbers, changes and names for all tables."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan

from duelrank.experiments.results.summary import Estimate, Labels, Measure, Summary
from duelrank.experiments.tables.table import Cell

__all__ = [
    "DIGITS",
    "Labels",
    "change_cell",
    "deviation",
    "label",
    "mark",
    "meaning",
    "number",
    "p_cell",
    "recipes",
    "runs_note",
]

#: Decimals, as in the paper.
DIGITS: dict[Measure, int] = {"online": 1, "offline": 3}

_NO_BREAK = "\N{NO-BREAK SPACE}"
LEVELS = ((0.01, "‡"), (0.05, "†"))


def number(value: float, digits: int, sign: bool = False) -> str:
    """Format a number, with a true minus sign."""
    if isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}".replace("-", "−")


def deviation(std: float | None, digits: int) -> str:
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
    return next((sign for level, sign in LEVELS if p is not None and p < level), "")


def label(text: str, labels: Labels | None) -> str:
    """Return the label of a recipe, user or data set, on one line."""
    return " ".join((labels or {}).get(text, text).split())


def recipes(algorithms: Iterable[str], labels: Labels | None) -> tuple[tuple[str, str], ...]:
    """Return label and recipe of each algorithm whose label differs from its recipe in more than case."""
    named = ((label(algorithm, labels), algorithm) for algorithm in dict.fromkeys(algorithms))
    return tuple((name, recipe) for name, recipe in named if name.lower() != recipe)


def meaning(measure: Measure, metric: str) -> str:
    """Describe a measure."""
    return {
        "online": f"the discounted sum of {metric} over all lists shown while learning",
        "offline": f"{metric} of the final weights on held-out queries",
    }[measure]


def runs_note(counts: Iterable[int]) -> str:
    """Return the note on the number of runs."""
    fewest, most = min(found := list(counts)), max(found)
    if most == 1:
        return "One run"
    return f"Mean (standard deviation) of {most if fewest == most else f'{fewest} to {most}'} runs"


def test_notes(summaries: Iterable[Summary], labels: Labels | None) -> Iterable[str]:
    """Return the notes on the baseline of the changes and on their significance tests."""
    summaries = list(summaries)
    shown = sum(each.p is not None for summary in summaries for each in summary.estimates)
    for summary in summaries[:1]:
        if any(each.change is not None for each in summary.estimates):
            rival = label(summary.baseline, labels) if summary.baseline else "the same algorithm without projection"
            yield f"Change: of the mean, against {rival}."
        if shown:
            where = "table" if shown == summary.family else "page"
            many = f", corrected by Holm's method for the {summary.family} tests of this {where}" if shown > 1 else ""
            marks = ", ".join(f"{sign} p < {level}".replace(" ", _NO_BREAK) for level, sign in reversed(LEVELS))
            yield f"{marks}: two-sided paired t-test over common folds and seeds{many}."
            yield from _one_split(summary, labels)


def _one_split(summary: Summary, labels: Labels | None) -> Iterable[str]:
    """Say where a test compares runs that all have the same test queries."""
    alone = dict.fromkeys(each.dataset for each in summary.estimates if each.p is not None and each.folds == 1)
    if alone:
        names = ", ".join(label(dataset, labels) for dataset in alone)
        yield f"All runs on {names} are of one split: the tests say nothing about other queries."
