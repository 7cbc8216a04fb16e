"""The paper's tables as values: mean and deviation of every cell, the gain of a projection and whether it is chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from typing import Literal

from duelrank.errors import InvalidValue
from duelrank.experiments.comparison import Spread
from duelrank.experiments.frame import Frame
from duelrank.experiments.significance import paired
from duelrank.statistics import holm

__all__ = ["Cell", "Measure", "Table", "TableRow", "check_comparable", "table"]

Measure = Literal["online", "offline"]

_SETTINGS = ("metric", "split", "impressions", "length")


@dataclass(frozen=True)
class Cell:
    """One algorithm with one user on one data set.

    Parameters
    ----------
    change
        Relative to the table's baseline, or without one of a projected algorithm relative to its base, in the same place: 0.05 is
        5% more; None where there is nothing to compare with.
    pairs, p
        Runs that share fold and seed with one of those, and what the paired test over them says, corrected by Holm's method
        for all such tests of the table; None where there was nothing to test.
    best
        Whether no other algorithm has a higher mean with that user on that data set.
    """

    value: Spread
    runs: int
    change: float | None = None
    pairs: int = 0
    p: float | None = None
    best: bool = False


@dataclass(frozen=True)
class TableRow:
    """One algorithm with one user; a cell is None where there was no run."""

    user: str
    algorithm: str
    base: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Table:
    """All cells of one measure: rows are users and, within them, algorithms; columns are data sets.

    Parameters
    ----------
    baseline
        The algorithm that all others are compared with; without one, each projected algorithm is compared with its base.
    """

    measure: Measure
    metric: str
    datasets: tuple[str, ...]
    rows: tuple[TableRow, ...]
    baseline: str = ""

    @property
    def users(self) -> tuple[str, ...]:
        """The users, in order."""
        return tuple(dict.fromkeys(row.user for row in self.rows))

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The algorithms, in order."""
        return tuple(dict.fromkeys(row.algorithm for row in self.rows))

    @property
    def runs(self) -> tuple[int, int]:
        """The fewest and the most runs that a cell has."""
        counts = [cell.runs for row in self.rows for cell in row.cells if cell]
        return min(counts), max(counts)


_Key = tuple[str, str, str]  # user, algorithm, data set


def table(frame: Frame, measure: Measure, baseline: str = "") -> Table:
    """Summarise runs as the paper does, each projected algorithm beside its base, or all beside one baseline.

    Users, algorithms and data sets keep the order in which they first appear, but a projected algorithm follows its base.
    Runs that differ in metric, split, impressions or list length are refused: their mean would mean nothing.
    """
    metric = check_comparable(frame)
    groups: dict[_Key, Frame] = {
        (user, algorithm, dataset): runs.sorted("fold", "seed")  # sums depend on their order in the last bit
        for (user, algorithm, dataset), runs in frame.groups("user", "algorithm", "dataset")
    }
    cells = {key: Cell(Spread.of(runs[measure].tolist()), len(runs)) for key, runs in groups.items()}
    bases = dict(zip(frame["algorithm"].tolist(), frame["base"].tolist(), strict=True))
    rivals = {a: baseline for a in bases if a != baseline} if baseline else {a: b for a, b in bases.items() if b}
    cells = _with_best(_with_changes(cells, frame, measure, rivals))
    users, datasets = (tuple(dict.fromkeys(frame[name].tolist())) for name in ("user", "dataset"))
    rows = (
        TableRow(user, algorithm, base, tuple(cells.get((user, algorithm, dataset)) for dataset in datasets))
        for user in users
        for algorithm, base in _in_families(bases).items()
    )
    return Table(measure, metric, datasets, tuple(row for row in rows if any(row.cells)), baseline)


def check_comparable(frame: Frame) -> str:
    """Return the metric of the runs, or raise where they are not of one kind."""
    if not len(frame):
        raise InvalidValue("there are no runs to make a table or figure of")
    for name in _SETTINGS:
        found = sorted(set(frame[name].tolist()))
        if len(found) > 1:
            raise InvalidValue(f"the runs differ in {name} ({', '.join(map(str, found))}): select one with `where`")
    return str(frame["metric"][0])


def _in_families(bases: dict[str, str]) -> dict[str, str]:
    """Return algorithms and their bases so that whatever projects an algorithm comes right after it."""
    families = list(dict.fromkeys(base or algorithm for algorithm, base in bases.items()))
    return dict(sorted(bases.items(), key=lambda item: (families.index(item[1] or item[0]), item[1] != "")))


def _with_changes(cells: dict[_Key, Cell], frame: Frame, measure: Measure, rivals: dict[str, str]) -> dict[_Key, Cell]:
    """Compare each algorithm that has a rival with it, where that has run too."""
    tested = [key for key in cells if key[1] in rivals and (key[0], rivals[key[1]], key[2]) in cells]
    here = [(key, frame.where(user=key[0], dataset=key[2])) for key in tested]
    tests = [paired(runs, key[1], rivals[key[1]], measure) for key, runs in here]
    changed = dict(cells)
    for key, test, p in zip(tested, tests, holm([test.p for test in tests]), strict=True):
        user, algorithm, dataset = key
        before = cells[user, rivals[algorithm], dataset].value.mean
        change = cells[key].value.mean / before - 1.0 if before else None
        changed[key] = replace(cells[key], change=change, pairs=test.n, p=None if isnan(p) else p)
    return changed


def _with_best(cells: dict[_Key, Cell]) -> dict[_Key, Cell]:
    highest: dict[tuple[str, str], float] = {}
    for (user, _, dataset), cell in cells.items():
        highest[user, dataset] = max(cell.value.mean, highest.get((user, dataset), cell.value.mean))
    return {key: replace(cell, best=cell.value.mean == highest[key[0], key[2]]) for key, cell in cells.items()}
