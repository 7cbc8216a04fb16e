"""Compares our results with the numbers published in the paper."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from math import sqrt

import numpy as np

from duelrank.core.statistics import student_test
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.summary import Measure, check_comparable, spread

__all__ = ["PUBLISHED_RUNS", "Replication", "ReplicationCell", "published", "replicate"]

#: Number of runs per published cell, over the same folds as ours.
PUBLISHED_RUNS = 15


@dataclass(frozen=True)
class ReplicationCell:
    """One of our cells and the published one.

    Parameters
    ----------
    published
        The name of the algorithm in the paper's table.
    mean, std
        Ours: the mean over the folds of the mean of their runs, and the standard deviation over all runs.
    published_mean, published_std
        As printed; the paper's deviation is over all its runs, too.
    within
        Standard deviation of our runs within folds, pooled over the folds; None if no fold has two runs.
    freedom
        Degrees of freedom of that deviation, and of z as Student's t: runs less folds.
    difference
        Our mean minus the published one.
    standard_error
        Standard error of the difference. Both sides use the same folds, so the variance between folds is not noise: only the
        variance within folds counts. The paper does not report it, so ours, from the same cell, is used for both sides.
    z
        The difference in standard errors.
    """

    measure: Measure
    metric: str
    user: str
    algorithm: str
    published: str
    dataset: str
    runs: int
    mean: float
    std: float | None
    published_mean: float
    published_std: float
    within: float | None
    freedom: int
    difference: float
    standard_error: float | None
    z: float | None


@dataclass(frozen=True)
class Replication:
    """Our cells of one measure, each with the published one."""

    measure: Measure
    metric: str
    cells: tuple[ReplicationCell, ...]

    def agreement(self, z: float = 2.0) -> tuple[int, int]:
        """Return the number of cells within the given number of standard errors, and the number of cells with a z value."""
        found = [cell.z for cell in self.cells if cell.z is not None]
        return sum(abs(value) <= z for value in found), len(found)

    def by_chance(self, z: float = 2.0) -> float:
        """Return the number of cells expected there if every cell were an exact replication: z is then Student's t."""
        return sum(1.0 - student_test(z, cell.freedom) for cell in self.cells if cell.z is not None)


def published() -> Frame:
    """Return the paper's two tables, one row per cell: measure, user, algorithm, dataset, mean, std.

    Some relative changes in the paper's tables are wrong: compute them from the means.
    """
    text = files("duelrank.experiments.results").joinpath("published.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return Frame.of({**row, "mean": float(row["mean"]), "std": float(row["std"])} for row in rows)


def replicate(frame: Frame, measure: Measure, names: Mapping[str, str]) -> Replication:
    """Compare the cells of a frame with the published ones.

    Parameters
    ----------
    names
        From an algorithm of the frame, such as ``"mgd(n_candidates=49)"``, to the published row, such as ``"mgd"``;
        algorithms and data sets without published numbers are left out.
    """
    metric = check_comparable(frame)
    known = {(r["user"], r["algorithm"], r["dataset"]): r for r in published().where(measure=measure).rows()}
    order = list(names)
    cells = []
    for (user, algorithm, dataset), runs in frame.groups("user", "algorithm", "dataset"):
        paper = known.get((user, names.get(algorithm, ""), dataset))
        if paper:
            place = user, algorithm, names[algorithm], dataset
            cells.append(_cell(measure, metric, place, runs.sorted("fold", "seed"), paper["mean"], paper["std"]))
    users = list(dict.fromkeys(cell.user for cell in cells))
    cells.sort(key=lambda cell: (users.index(cell.user), order.index(cell.algorithm)))
    return Replication(measure, metric, tuple(cells))


def _cell(
    measure: Measure, metric: str, place: tuple[str, str, str, str], runs: Frame, paper: float, paper_std: float
) -> ReplicationCell:
    column = f"{measure}_performance"
    folds = [fold[column] for _, fold in runs.groups("fold")]
    mean = float(np.mean([fold.mean() for fold in folds]))
    freedom = len(runs) - len(folds)
    within = _within(folds, freedom)
    # The variances of our mean of fold means and of the paper's mean, in units of the variance within folds.
    units = sum(1.0 / len(fold) for fold in folds) / len(folds) ** 2 + 1.0 / PUBLISHED_RUNS
    error = within * sqrt(units) if within else None
    difference = mean - paper
    return ReplicationCell(
        measure,
        metric,
        *place,
        runs=len(runs),
        mean=mean,
        std=spread(runs[column].tolist())[1],
        published_mean=paper,
        published_std=paper_std,
        within=within,
        freedom=freedom,
        difference=difference,
        standard_error=error,
        z=difference / error if error else None,
    )


def _within(folds: list[np.ndarray], freedom: int) -> float | None:
    """Pool the standard deviation of the runs over the folds."""
    squares = sum(float(((fold - fold.mean()) ** 2).sum()) for fold in folds)
    return sqrt(squares / freedom) if freedom else None
