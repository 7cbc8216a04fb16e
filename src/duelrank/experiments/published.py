"""The numbers that the paper printed, and ours beside them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from math import sqrt

from duelrank.experiments.comparison import Spread
from duelrank.experiments.frame import Frame
from duelrank.experiments.tables import Measure, check_comparable

__all__ = ["PUBLISHED_RUNS", "Beside", "BesideCell", "BesideRow", "beside_published", "published"]

#: Every published cell is the mean of so many runs.
PUBLISHED_RUNS = 15


@dataclass(frozen=True)
class BesideCell:
    """One of our cells and the published one.

    Parameters
    ----------
    errors
        Our mean less the published one, in standard errors of that difference; None where one run has no spread.
    """

    ours: Spread
    runs: int
    published: Spread
    errors: float | None


@dataclass(frozen=True)
class BesideRow:
    """One algorithm with one user; a cell is None where we ran nothing or nothing was published."""

    user: str
    algorithm: str
    name: str
    cells: tuple[BesideCell | None, ...]


@dataclass(frozen=True)
class Beside:
    """Our numbers beside the published ones, a column per data set."""

    measure: Measure
    metric: str
    datasets: tuple[str, ...]
    rows: tuple[BesideRow, ...]

    def agreement(self, errors: float = 2.0) -> tuple[int, int]:
        """Return how many cells differ by at most so many standard errors, and how many there are."""
        found = [cell.errors for row in self.rows for cell in row.cells if cell and cell.errors is not None]
        return sum(abs(error) <= errors for error in found), len(found)


def published() -> Frame:
    """Return the paper's two tables: measure, user, algorithm, dataset, mean, std; a row per cell.

    The relative changes that the paper prints beside them are wrong in places: compute them from the means.
    """
    text = files("duelrank.experiments").joinpath("published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return Frame.of({**row, "mean": float(row["mean"]), "std": float(row["std"])} for row in rows)


def beside_published(frame: Frame, measure: Measure, names: Mapping[str, str]) -> Beside:
    """Put the cells of a frame beside the published ones.

    Parameters
    ----------
    names
        From an algorithm of the frame, such as ``"mgd(n_candidates=49)"``, to the published row, such as ``"mgd"``;
        algorithms without one are left out, and so are data sets on which nothing was published.
    """
    metric = check_comparable(frame)
    known = {(r["user"], r["algorithm"], r["dataset"]): r for r in published().where(measure=measure).rows()}
    cells: dict[tuple[str, str, str], BesideCell] = {}
    for (user, algorithm, dataset), runs in frame.groups("user", "algorithm", "dataset"):
        paper = known.get((user, names.get(algorithm, ""), dataset))
        if paper:
            cells[user, algorithm, dataset] = _cell(runs, measure, Spread(paper["mean"], paper["std"]))
    datasets = tuple(dict.fromkeys(dataset for _, _, dataset in cells))
    pairs = dict.fromkeys((user, algorithm) for user in dict.fromkeys(u for u, _, _ in cells) for algorithm in names)
    rows = (BesideRow(u, a, names[a], tuple(cells.get((u, a, dataset)) for dataset in datasets)) for u, a in pairs)
    return Beside(measure, metric, datasets, tuple(row for row in rows if any(row.cells)))


def _cell(runs: Frame, measure: Measure, paper: Spread) -> BesideCell:
    ours = Spread.of(runs.sorted("fold", "seed")[measure].tolist())
    return BesideCell(ours, len(runs), paper, _errors(ours, len(runs), paper))


def _errors(ours: Spread, runs: int, paper: Spread) -> float | None:
    if ours.std is None or paper.std is None:
        return None
    error = sqrt(ours.std**2 / runs + paper.std**2 / PUBLISHED_RUNS)
    return (ours.mean - paper.mean) / error if error else None
