"""What all formats say alike: numbers, marks, names, and what a table is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan

from duelrank.experiments.comparison import Spread
from duelrank.experiments.published import PUBLISHED_RUNS, Beside
from duelrank.experiments.tables import Cell, Measure, Table

__all__ = [
    "Labels",
    "change",
    "deviation",
    "digits_of",
    "errors",
    "explanation",
    "far",
    "listed",
    "mark",
    "name",
    "number",
    "title",
    "user_name",
]

#: From a recipe, user or data set to the short name to print for it; what is not in it is printed as it is.
Labels = Mapping[str, str]

_LEVELS = ((0.01, "‡"), (0.05, "†"))
_NO_BREAK = "\N{NO-BREAK SPACE}"
_FAR = 2.0  # standard errors: where this many lie between two means, chance is a poor explanation


def digits_of(measure: Measure, wanted: int | None) -> int:
    """Return how many decimals to print: as many as the paper does, unless asked otherwise."""
    return wanted if wanted is not None else {"online": 1, "offline": 3}[measure]


def number(value: float, digits: int, sign: bool = False) -> str:
    """Write a number, with a minus that is as long as a plus."""
    if isnan(value):
        return "–"
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"{rounded:{'+' if sign and rounded else ''}.{digits}f}".replace("-", "−")


def deviation(value: Spread, digits: int) -> str:
    """Write the standard deviation in brackets; nothing where one run has none."""
    return "" if value.std is None else f"({number(value.std, digits)})"


def change(cell: Cell) -> str:
    """Write the relative change with the mark of its significance; nothing where there is no base."""
    return "" if cell.change is None else f"{number(100.0 * cell.change, 1, sign=True)}%{mark(cell.p)}"


def mark(p: float | None) -> str:
    """Return the sign that stands for a p-value."""
    return next((sign for level, sign in _LEVELS if p is not None and p < level), "")


def errors(value: float | None) -> str:
    """Write a difference in standard errors."""
    return "" if value is None else number(value, 1, sign=True)


def far(value: float | None) -> bool:
    """Whether a difference in standard errors is too large to be chance."""
    return value is not None and abs(value) > _FAR


def name(text: str, labels: Labels | None) -> str:
    """Return the label of a recipe, user or data set, on one line."""
    return " ".join((labels or {}).get(text, text).split())


def user_name(text: str, labels: Labels | None) -> str:
    """Return the label of a user, which starts a row of the table and so with a capital."""
    label = name(text, labels)
    return label[:1].upper() + label[1:]


def listed(algorithms: Iterable[str], labels: Labels | None) -> list[tuple[str, str]]:
    """Return label and recipe of each algorithm that goes by another name than its own."""
    return [(name(a, labels), a) for a in dict.fromkeys(algorithms) if name(a, labels) != a]


def title(table: Table | Beside) -> str:
    """Say in a few words what a table shows."""
    what = f"{table.measure.capitalize()} {table.metric}"
    return f"{what} beside the published numbers" if isinstance(table, Beside) else what


def explanation(table: Table | Beside, labels: Labels | None = None) -> list[str]:
    """Say in sentences how to read a table."""
    what = {
        "online": f"the discounted sum of {table.metric} over all lists shown while learning",
        "offline": f"{table.metric} of the final weights on held-out queries",
    }[table.measure]
    return _beside(table, what) if isinstance(table, Beside) else _plain(table, what, labels)


def _plain(table: Table, what: str, labels: Labels | None) -> list[str]:
    cells = [cell for row in table.rows for cell in row.cells if cell]
    tests = sum(cell.p is not None for cell in cells)
    said = [f"{_numbers(*table.runs)}: {what}.", "Bold: the best for that user and data set."]
    if any(cell.change is not None for cell in cells):
        rival = name(table.baseline, labels) if table.baseline else "the same algorithm without projection"
        said.append(f"In percent: the change of the mean against {rival}.")
    if tests:
        many = f", corrected by Holm's method for the {tests} tests of this table" if tests > 1 else ""
        marks = ", ".join(f"{sign} p < {level}".replace(" ", _NO_BREAK) for level, sign in reversed(_LEVELS))
        said.append(f"{marks}: two-sided paired t-test over common folds and seeds{many}.")
    return said


def _beside(table: Beside, what: str) -> list[str]:
    counts = [cell.runs for row in table.rows for cell in row.cells if cell]
    close, total = table.agreement(_FAR)
    said = [f"{_numbers(min(counts), max(counts))} of ours, {PUBLISHED_RUNS} of the paper: {what}."] if counts else []
    said.append("SE: our mean less the published one, in standard errors of that difference.")
    if total:
        said.append(f"{close} of {total} cells are within {_FAR:.0f} standard errors; the others are bold.")
    return said


def _numbers(fewest: int, most: int) -> str:
    if most == 1:
        return "One run"
    return f"Mean (standard deviation) of {most if fewest == most else f'{fewest} to {most}'} runs"
