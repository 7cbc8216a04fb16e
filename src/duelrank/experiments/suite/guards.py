"""Defines the kind of experiment that guards rankers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from duelrank.algorithms import Algorithm
from duelrank.core.errors import UnknownName
from duelrank.core.grammar import parse
from duelrank.core.registry import Between, register, spell
from duelrank.experiments.results import Frame
from duelrank.experiments.suite.experiment import Experiment, Study
from duelrank.experiments.suite.grid import Grid
from duelrank.experiments.tables import GUARD_COLUMNS, Table, guard_table
from duelrank.simulation import Guarded
from duelrank.users import User

__all__ = ["Guards"]

_NO_GUARD = "no guard"


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Guards(Experiment):
    """Recipes under guards: alarms, proofs of gain, and what a guard costs, a table per data set.

    Parameters
    ----------
    recipes, guards
        Labels of the suite: each recipe runs under each guard.
    columns
        Of the table, names among `duelrank.experiments.tables.GUARD_COLUMNS`.
    name
        The stem of the table's file.
    users
        Those of the suite's users that it is about; all by default.
    times
        So many times the impressions of the suite.
    runs
        At most so many runs per row, where long ones would take too much time; as many as the suite has by default.
    unguarded
        Whether the table has rows without a guard, too.

    Examples
    --------
    One recipe under two guards on one fold: two more runs.

    >>> from duelrank import parse
    >>> from duelrank.experiments import Grid
    >>> from duelrank.experiments.suite import Guards
    >>> guards = {"tell": parse("Guarded(on_alarm='tell')"), "stop": parse("Guarded(on_alarm='baseline')")}
    >>> experiment = Guards(title="Guards", recipes=("MGD",), guards=("tell", "stop"), columns=("alarm", "mean"))
    >>> (grid,) = experiment.further(Grid("mgd", "synthetic", "perfect", runs=1), {"MGD": parse("mgd")}, guards)
    >>> len(grid.specs())
    2
    """

    recipes: tuple[str, ...]
    guards: tuple[str, ...]
    columns: tuple[str, ...]
    name: str = "guard"
    users: tuple[str, ...] = ()
    times: Annotated[int, Between(1, 1_000)] = 1
    runs: Annotated[int, Between(1)] = 1_000
    unguarded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for column in self.columns:
            if column not in GUARD_COLUMNS:
                raise UnknownName.among("column", column, GUARD_COLUMNS)

    def further(self, grid: Grid, recipes: Mapping[str, Algorithm], guards: Mapping[str, Guarded]) -> tuple[Grid, ...]:
        """Return each recipe under each guard; without one, too, where it is needed and the suite's own run is shorter."""
        users = tuple(user for user in grid.users if not self.users or user in self._users)
        if not users:
            return ()
        further = replace(
            grid,
            algorithms=tuple(recipes[label] for label in self.recipes),
            users=users,
            impressions=grid.impressions * self.times,
            runs=min(grid.runs, self.runs),
            guards=(*((None,) if self.unguarded else ()), *(guards[label] for label in self.guards)),
        )
        return (further,)

    @property
    def _users(self) -> tuple[User, ...]:
        return tuple(parse(text, User) for text in self.users)

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return a table per data set; a row of several recipes names both."""
        return tuple(self._table(study, dataset) for dataset in study.datasets)

    def _table(self, study: Study, dataset: str) -> Table:
        frame = study.frame.where(dataset=dataset, impressions=study.impressions * self.times)
        wanted = [spell(user) for user in self._users]
        users = [user for user in dict.fromkeys(frame["user"].tolist()) if not wanted or user in wanted]
        lines = []
        for user in users:
            for recipe in self.recipes:
                runs = frame.where(user=user, algorithm=study.algorithm(recipe)).sorted("seed", "fold")
                plain = runs.where(guard="")
                found: list[tuple[str, Frame]] = [(_NO_GUARD, plain)] if self.unguarded else []
                found += [(label, runs.where(guard=spell(study.guards[label]))) for label in self.guards]
                lines += [(user, self._row(recipe, label), each, plain) for label, each in found]
        return guard_table(f"{self.name}-{dataset}", f"{self.title}, {dataset}", self.columns, lines)

    def _row(self, recipe: str, label: str) -> str:
        return f"{recipe}, {label}" if len(self.recipes) > 1 else label

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the recipes that run under the guards."""
        return {label: study.recipes[label] for label in self.recipes}

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the recipes."""
        return self.recipes

    def guard_labels(self) -> tuple[str, ...]:
        """Return the labels of the guards."""
        return self.guards

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Keep the remaining recipes."""
        left = tuple(label for label in self.recipes if label in labels)
        return replace(self, recipes=left) if left else None
