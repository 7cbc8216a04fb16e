"""Defines the kinds of experiments: tables, league, curves, sweep, ablation, guards, backfill, drift and views."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from duelrank.algorithms import Algorithm, Projected
from duelrank.core.errors import UnknownName
from duelrank.core.grammar import parse
from duelrank.core.registry import Between, counted, override, register, spell, walk
from duelrank.datasets import Dataset, Drifting
from duelrank.experiments.answer import answer
from duelrank.experiments.experiment import Comparison, Experiment, Grid, Study
from duelrank.experiments.figures import (
    Arm,
    CurveColumn,
    ablation,
    learning_curves,
    moving_averages,
    performance,
    rewards_by_views,
    sweep,
)
from duelrank.experiments.report import Picture
from duelrank.experiments.results import Frame
from duelrank.experiments.summary import MEASURES, Measure, Summary, recovery, replicate, summarise, view_curves
from duelrank.experiments.tables import Table
from duelrank.experiments.tabulate import (
    BACKFILL_MEASURES,
    GUARD_COLUMNS,
    backfill_table,
    drift_table,
    guard_table,
    league_table,
    performance_table,
    replication_table,
    views_table,
)
from duelrank.simulation import Baseline, Guarded, Logged
from duelrank.simulation.run import BLOCK
from duelrank.users import User


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Tables(Experiment):
    """Online and offline performance of all recipes, and the published numbers if the suite names them.

    Parameters
    ----------
    baseline
        The label of the recipe that all others are compared with; without it a projected one is compared with its base.
    together
        Whether both measures share one table per data set, which also has p-values and the time of an impression.
    worst
        Whether to show the worst run of each cell.
    recipes
        The labels of the recipes in the tables; all by default.

    Examples
    --------
    Two recipes with one user make two tables of two rows:

    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.kinds import Tables
    >>> frame = compare(["dbgd", "mgd"], "synthetic(n_queries=20)", "perfect", runs=1, impressions=50, workers=1)
    >>> study = Study(frame, {"DBGD": parse("dbgd"), "MGD": parse("mgd")}, {}, {})
    >>> [(table.name, len(table.rows)) for table in Tables(title="Performance").tables(study)]
    [('online', 2), ('offline', 2)]
    """

    baseline: str = ""
    together: bool = False
    worst: bool = False
    recipes: tuple[str, ...] = ()

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return a table per measure, or one for both, and the tables of the replication."""
        summaries = self._summaries(study)
        if self.together:
            return tuple(self._both(summaries, study, dataset) for dataset in study.datasets)
        ours = [performance_table(summary, study.labels, worst=self.worst) for summary in summaries]
        return *ours[:-1], _with_skyline(ours[-1], study), *self._published(study)

    def _both(self, summaries: list[Summary], study: Study, dataset: str) -> Table:
        theirs = [replace(s, estimates=tuple(e for e in s.estimates if e.dataset == dataset)) for s in summaries]
        table = performance_table(theirs, study.labels, detailed=True, worst=self.worst)
        several = len(study.datasets) > 1
        return replace(table, name=f"{table.name}-{dataset}", title=f"{table.title}, {dataset}") if several else table

    def _summaries(self, study: Study) -> list[Summary]:
        return [study.summary(measure, self.baseline, self.recipes) for measure in MEASURES]

    def answer(self, study: Study) -> str:
        """Return which recipe is the best for which users, by how much, and if that is significant."""
        return answer(self._summaries(study), study.labels)

    def _published(self, study: Study) -> list[Table]:
        names = {study.algorithm(label): row for label, row in study.published.items() if label in study.recipes}
        found = [replicate(study.runs(), measure, names) for measure in MEASURES] if names else []
        return [replication_table(each, study.labels) for each in found if each.cells]

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return all means with their confidence intervals, a figure per data set."""
        name = f"performance-{self.baseline}".lower() if self.recipes else "performance"
        return tuple(
            Picture.drawn(
                f"{name}-{dataset}",
                f"{self.title}, {dataset}: mean and 95% confidence interval of every algorithm.",
                partial(performance, study.runs(self.recipes, dataset), study.labels, dataset),
            )
            for dataset in study.datasets
        )

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the comparison of the tables."""
        return ((self.baseline, self.recipes),)

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the baseline and of the recipes."""
        return (*([self.baseline] if self.baseline else []), *self.recipes)

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the recipes in the tables."""
        return {label: study.recipes[label] for label in self.recipes} or dict(study.recipes)

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Keep the tables even without the baseline, and with those of their recipes that are left."""
        left = tuple(label for label in self.recipes if label in labels)
        if self.recipes and not left:
            return None
        return replace(self, baseline=self.baseline if self.baseline in labels else "", recipes=left)


def _with_skyline(table: Table, study: Study) -> Table:
    numbers = ", ".join(f"{name} {value:.3f}" for name, value in study.skylines.items())
    note = f"Skyline, a linear LambdaRank trained on all labels (offline nDCG@10): {numbers}."
    return replace(table, notes=(*table.notes, note)) if numbers else table


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class League(Experiment):
    """A table per data set with a row per algorithm, the best first.

    Examples
    --------
    Who is ahead after 100 lists?

    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.kinds import League
    >>> names = ["dbgd", "mgd", "pdgd"]
    >>> frame = compare(names, "synthetic(n_queries=20)", "perfect", runs=1, impressions=100, workers=1)
    >>> study = Study(frame, {name: parse(name) for name in names}, {}, {})
    >>> (table,) = League(title="League").tables(study)
    >>> [row.name for row in table.rows]
    ['1. pdgd', '2. dbgd', '3. mgd']
    """

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return a league table per data set."""
        found = [[summarise(study.runs(dataset=d), m, tests=False) for m in MEASURES] for d in study.datasets]
        return tuple(league_table(summaries, study.labels) for summaries in found)

    def answer(self, study: Study) -> str:
        """Return which recipe is the best for which users; a league has no tests."""
        return answer([summarise(study.runs(), measure, tests=False) for measure in MEASURES], study.labels)


@dataclass(frozen=True, repr=False, kw_only=True)
class _SomeRecipes(Experiment):
    """An experiment on some recipes of the suite, given by their labels; on all of them by default."""

    recipes: tuple[str, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the recipes."""
        return self.recipes

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the recipes and their labels."""
        return {label: study.recipes[label] for label in self.recipes or study.recipes}

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Keep the remaining recipes."""
        left = tuple(label for label in self.recipes if label in labels)
        return replace(self, recipes=left) if left or not self.recipes else None


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Curves(_SomeRecipes):
    """Curves over impressions, a figure per data set.

    Parameters
    ----------
    recipes
        The labels of the recipes to draw; all by default.
    column
        The column of the frame that holds the curves.
    measure
        The name of the curves in the caption.
    skyline
        Whether to draw the performance of the offline reference.

    Examples
    --------
    A figure for each data set, here of one of two recipes:

    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.kinds import Curves
    >>> frame = compare(["dbgd", "mgd"], "synthetic(n_queries=20)", "perfect", runs=1, impressions=50, workers=1)
    >>> study = Study(frame, {"DBGD": parse("dbgd"), "MGD": parse("mgd")}, {}, {})
    >>> [picture.name for picture in Curves(title="Learning", recipes=("MGD",)).figures(study)]
    ['learning-synthetic(n_queries=20)']
    """

    column: CurveColumn = "offline_curve"
    measure: str = ""
    skyline: bool = False

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return a figure per data set."""
        return tuple(self._picture(study, dataset) for dataset in study.datasets)

    def _picture(self, study: Study, dataset: str) -> Picture:
        skyline = study.skylines.get(dataset) if self.skyline else None
        chosen = study.runs(self.recipes, dataset)
        draw = partial(learning_curves, chosen, self.column, study.labels, skyline, title=dataset)
        measure = self.measure or self.column.replace("_", " ")
        return Picture.drawn(f"{self.title.lower()}-{dataset}", f"{self.title}: {measure}, {dataset}.", draw)

    @property
    def needs_reference(self) -> bool:
        """Whether the skyline, or similarity to the reference, is drawn."""
        return self.skyline or self.column == "cosine_curve"


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Sweep(Experiment):
    """Both measures against the values of one parameter, a figure per measure and data set.

    Parameters
    ----------
    recipe, label
        The recipe that is varied, and its name in the legend.
    field, values
        The parameter that is varied, and its values.
    parameter
        The name of the parameter on the axis; the field by default.
    base
        The label of a recipe to compare with; none by default.

    Examples
    --------
    The runs that it adds to those of a suite:

    >>> from duelrank.experiments.kinds import Sweep
    >>> sweep = Sweep(title="Candidates", recipe="mgd", field="n_candidates", values=(1, 9, 49), label="MGD")
    >>> list(sweep.algorithms())
    ['MGD, n_candidates = 1', 'MGD, n_candidates = 9', 'MGD, n_candidates = 49']
    """

    recipe: str
    field: str
    values: tuple[int | float, ...]
    label: str
    parameter: str = ""
    base: str = ""

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return a figure per data set and measure."""
        return tuple(self._picture(study, dataset, measure) for dataset in study.datasets for measure in MEASURES)

    def _picture(self, study: Study, dataset: str, measure: Measure) -> Picture:
        points = [(value, spell(algorithm)) for value, algorithm in self._varied()]
        base = (self.base, study.algorithm(self.base)) if self.base else None
        chosen = study.plain.where(dataset=dataset).among(
            "algorithm", [r for _, r in (*points, *([base] if base else []))]
        )
        draw = partial(sweep, chosen, points, measure, self.parameter or self.field, self.label, base, dataset)
        return Picture.drawn(f"{self.field}-{measure}-{dataset}", f"{self.title}: {measure}, {dataset}.", draw)

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the base and the recipe of each value."""
        return ({self.base: study.recipes[self.base]} if self.base else {}) | self.algorithms()

    def algorithms(self) -> dict[str, Algorithm]:
        """Return the recipe with each of the values."""
        name = self.parameter or self.field
        return {f"{self.label}, {name} = {value:g}": algorithm for value, algorithm in self._varied()}

    def _varied(self) -> list[tuple[float, Algorithm]]:
        algorithm = parse(self.recipe, Algorithm)
        return [(value, override(algorithm, {self.field: value}, self.recipe)) for value in self.values]

    def labels(self) -> tuple[str, ...]:
        """Return the label of the base."""
        return (self.base,) if self.base else ()

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Keep the sweep if both the varied recipe and its base remain."""
        return self if {self.label, *self.labels()} <= set(labels) else None


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Ablation(Tables):
    """The tables of all recipes, and both measures by projection and by rescaling, a figure per number of candidates.

    All recipes are MGD, or MGD with document space projection.

    Examples
    --------
    With and without projection; both have nine candidates, so there is one figure:

    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.kinds import Ablation
    >>> recipes = {"MGD": parse("mgd"), "MGD-DSP": parse("mgd-dsp")}
    >>> frame = compare([*recipes.values()], "synthetic(n_queries=20)", "perfect", runs=1, impressions=50, workers=1)
    >>> [picture.name for picture in Ablation(title="Projection").figures(Study(frame, recipes, {}, {}))]
    ['ablation-9-synthetic(n_queries=20)']
    """

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return a figure per data set and number of candidates."""
        arms: dict[int, list[Arm]] = {}
        for algorithm in study.recipes.values():
            n_candidates, arm = _arm(algorithm)
            arms.setdefault(n_candidates, []).append(arm)
        places = [(dataset, n, group) for dataset in study.datasets for n, group in arms.items()]
        return tuple(self._picture(study, *place) for place in places)

    def _picture(self, study: Study, dataset: str, n_candidates: int, arms: list[Arm]) -> Picture:
        chosen = study.runs(dataset=dataset).among("algorithm", [arm.recipe for arm in arms])
        where = f"{dataset}, {counted(n_candidates, 'candidate')}"
        draw = partial(ablation, chosen, arms, where)
        return Picture.drawn(f"ablation-{n_candidates}-{dataset}", f"{self.title} {where}.", draw)


def _arm(algorithm: Any) -> tuple[int, Arm]:
    """Return the number of candidates of a recipe, and how it projects and rescales."""
    recipe = spell(algorithm)
    if isinstance(algorithm, Projected):
        space: Any = algorithm.projection
        base: Any = algorithm.base
        rescaling = "unit step" if space.rescale == "unit" else "as it is"
        return base.exploration.n_candidates, Arm(f"projected, r = {space.remembered}", rescaling, recipe)
    rescaling = "unit step" if algorithm.inference.unit else "as it is"
    return algorithm.exploration.n_candidates, Arm("not projected", rescaling, recipe)


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Guards(_SomeRecipes):
    """Recipes under guards: alarms, proofs of gain, and the cost of a guard, a table per data set.

    Parameters
    ----------
    recipes, guards
        Labels of the suite: each recipe runs under each guard.
    columns
        Columns of the table: names among `duelrank.experiments.tabulate.GUARD_COLUMNS`.
    name
        Stem of the table's file name.
    users
        Users of the suite to include; all by default.
    times
        Length of the runs, as a multiple of the impressions of the suite.
    runs
        Maximum number of runs per row, to limit the time of long runs; the number of the suite by default.
    unguarded
        Whether the table also has rows without a guard.

    Examples
    --------
    One recipe under two guards on one fold: two more runs.

    >>> from duelrank import parse
    >>> from duelrank.experiments import Grid
    >>> from duelrank.experiments.kinds import Guards
    >>> guards = {"tell": parse("Guarded(on_alarm='tell')"), "stop": parse("Guarded(on_alarm='baseline')")}
    >>> experiment = Guards(title="Guards", recipes=("MGD",), guards=("tell", "stop"), columns=("alarm", "mean"))
    >>> (grid,) = experiment.further(Grid("mgd", "synthetic", "perfect", runs=1), {"MGD": parse("mgd")}, guards)
    >>> len(grid.specs())
    2
    """

    recipes: tuple[str, ...] = field()
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
        """Return each recipe under each guard, and also without one if the table has rows without a guard."""
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
                found: list[tuple[str, Frame]] = [("no guard", plain)] if self.unguarded else []
                found += [(label, runs.where(guard=spell(study.guards[label]))) for label in self.guards]
                lines += [(user, self._row(recipe, label), each, plain) for label, each in found]
        return guard_table(f"{self.name}-{dataset}", f"{self.title}, {dataset}", self.columns, lines)

    def _row(self, recipe: str, label: str) -> str:
        return f"{recipe}, {label}" if len(self.recipes) > 1 else label

    def guard_labels(self) -> tuple[str, ...]:
        """Return the labels of the guards."""
        return self.guards


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Backfill(_SomeRecipes):
    """Recipes with and without a log of production: quality of the first lists and of the final weights, tables per data set.

    Parameters
    ----------
    recipes
        Labels of the suite.
    production
        Baselines, as texts; each has produced the lists of one log.
    lists
        Lengths of the logs.

    Examples
    --------
    How much of a log is enough? Each of these is read before the first live list:

    >>> from duelrank.experiments.kinds import Backfill
    >>> experiment = Backfill(title="Logs", recipes=("MGD",), production=("Feature(0)",), lists=(10_000, 100, 1_000))
    >>> [log.lists for log in experiment.logs("Feature(0)")]
    [100, 1000, 10000]
    """

    recipes: tuple[str, ...] = field()
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


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Drift(_SomeRecipes):
    """Recipes whose users change their taste: what is lost, and how soon it is regained, a table and a figure per `Drifting` set.

    Parameters
    ----------
    recipes
        The labels of the recipes; all by default.
    window
        Number of lists of the moving average.
    share
        The share of the level before the change at which a recipe has recovered.

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.kinds import Drift
    >>> frame = compare("pdgd", "Drifting(start=100)", "perfect", runs=1, impressions=200, workers=1)
    >>> (table,) = Drift(title="Drift", window=50).tables(Study(frame, {"PDGD": parse("pdgd")}, {}, {}))
    >>> [column.head for column in table.columns]
    ['before', 'dip, %', 'lost', 'lists until 95%', 'end', 'all lists']
    """

    window: Annotated[int, Between(BLOCK)] = 500
    share: Annotated[float, Between(0.0, 1.0)] = 0.95

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return a table per data set that changes."""
        return tuple(self._table(study, dataset, change.start) for dataset, change in _changes(study).items())

    def _table(self, study: Study, dataset: str, start: int) -> Table:
        lines = []
        for (user, algorithm), runs in study.runs(self.recipes, dataset).groups("user", "algorithm"):
            found = [recovery(each, BLOCK, start, self.window, self.share) for each in runs["online_blocks"]]
            lines.append((user, study.labels[algorithm], found, runs["online_mean"].tolist()))
        return drift_table(f"drift-{dataset}", f"{self.title}, {dataset}", self.window, self.share, lines)

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return a figure per data set that changes."""
        return tuple(self._picture(study, dataset, change) for dataset, change in _changes(study).items())

    def _picture(self, study: Study, dataset: str, change: Drifting) -> Picture:
        ends = (change.start, change.start + change.over)
        draw = partial(
            moving_averages, study.runs(self.recipes, dataset), BLOCK, self.window, ends, study.labels, dataset
        )
        caption = f"{self.title}: mean metric of the last {self.window:,} lists, {dataset}; the taste changes at the dotted line."
        return Picture.drawn(f"drift-{dataset}", caption, draw)


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Views(_SomeRecipes):
    """Reward of a list by how often its query was seen before: a table and a figure per data set.

    Parameters
    ----------
    recipes
        The labels of the recipes; all by default.

    Examples
    --------
    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.kinds import Views
    >>> recipes = {"PDGD": parse("pdgd"), "with memory": parse("remember >> pdgd")}
    >>> frame = compare([*recipes.values()], "synthetic(n_queries=9)", "perfect", runs=1, impressions=200, workers=1)
    >>> (table,) = Views(title="Repeated queries").tables(Study(frame, recipes, {}, {}))
    >>> [column.head for column in table.columns][:4]
    ['0', '1', '2–3', '4–7']
    """

    def tables(self, study: Study) -> tuple[Table, ...]:
        """Return a table per data set."""
        return tuple(
            views_table(
                f"views-{each}", f"{self.title}, {each}", view_curves(study.runs(self.recipes, each)), study.labels
            )
            for each in study.datasets
        )

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return a figure per data set."""
        return tuple(self._picture(study, dataset) for dataset in study.datasets)

    def _picture(self, study: Study, dataset: str) -> Picture:
        draw = partial(rewards_by_views, study.runs(self.recipes, dataset), study.labels, dataset)
        caption = f"{self.title}: mean metric of lists by the number of earlier lists of their query, {dataset}."
        return Picture.drawn(f"views-{dataset}", caption, draw)


def _changes(study: Study) -> dict[str, Drifting]:
    """Return the data sets that change, as text in frames, with their change."""
    parts = ((name, part) for name in study.datasets for _, part in walk(parse(name, Dataset)))
    return {name: part for name, part in parts if isinstance(part, Drifting)}
