"""Defines the kind of experiment in which rankers learn from a log before they go live."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from duelrank.algorithms import Algorithm
from duelrank.core.grammar import parse
from duelrank.core.registry import register, spell
from duelrank.experiments.suite.experiment import Experiment, Study
from duelrank.experiments.suite.grid import Grid
from duelrank.experiments.tables import BACKFILL_MEASURES, Table, backfill_table
from duelrank.simulation import Baseline, Guarded, Logged

__all__ = ["Backfill"]


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Backfill(Experiment):
    """Recipes with and without a log of production: what first users see, and what is learned in the end, tables per data set.

    Parameters
    ----------
    recipes
        Labels of the suite.
    production
        Baselines, as texts: each has shown the lists of one log.
    lists
        Of the logs: so many.

    Examples
    --------
    How much of a log is enough? Each of these is read before the first live list:

    >>> from duelrank.experiments.suite import Backfill
    >>> experiment = Backfill(title="Logs", recipes=("MGD",), production=("Feature(0)",), lists=(10_000, 100, 1_000))
    >>> [log.lists for log in experiment.logs("Feature(0)")]
    [100, 1000, 10000]
    """

    recipes: tuple[str, ...]
    production: tuple[str, ...]
    lists: tuple[int, ...]

    def logs(self, production: str) -> list[Logged]:
        """Return the logs of a production ranking, the shortest first."""
        return [Logged(parse(production, Baseline), lists) for lists in sorted(self.lists)]

    def further(self, grid: Grid, recipes: Mapping[str, Algorithm], guards: Mapping[str, Guarded]) -> tuple[Grid, ...]:
        """Return each recipe after each log."""
        logs = tuple(log for each in self.production for log in self.logs(each))
        return (replace(grid, algorithms=tuple(recipes[label] for label in self.recipes), logs=logs),)

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return a table per data set and measure."""
        return tuple(self._table(study, dataset, each) for dataset in study.datasets for each in BACKFILL_MEASURES)

    def _table(self, study: Study, dataset: str, measure: str) -> Table:
        frame = study.frame.where(dataset=dataset, guard="")
        lines = []
        for user in dict.fromkeys(frame["user"].tolist()):
            for label in self.recipes:
                runs = frame.where(user=user, algorithm=study.algorithm(label))
                for production in self.production:
                    frames = [runs.where(log=log) for log in ("", *(spell(each) for each in self.logs(production)))]
                    lines.append((user, f"{label}, log of {production}", frames))
        return backfill_table(
            f"backfill-{measure}-{dataset}", f"{self.title}, {dataset}, {measure}", measure, sorted(self.lists), lines
        )

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the recipes that learn from the logs."""
        return {label: study.recipes[label] for label in self.recipes}

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the recipes."""
        return self.recipes

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Keep the remaining recipes."""
        left = tuple(label for label in self.recipes if label in labels)
        return replace(self, recipes=left) if left else None
