"""Defines the kinds of experiments: tables, league, curves, sweep and ablation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from duelrank.algorithms import Algorithm, Projected
from duelrank.core.grammar import parse
from duelrank.core.registry import override, register, spell
from duelrank.experiments.figures import Arm, CurveColumn, ablation, learning_curves, performance, sweep
from duelrank.experiments.report import Picture
from duelrank.experiments.results import replicate
from duelrank.experiments.results.summary import MEASURES, Measure, summarise
from duelrank.experiments.suite.experiment import Comparison, Experiment, Study
from duelrank.experiments.tables import Table, league_table, performance_table, replication_table

__all__ = ["Ablation", "Curves", "League", "Sweep", "Tables"]


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Tables(Experiment):
    """Online and offline performance of all recipes, and the published numbers where the suite names them.

    Parameters
    ----------
    baseline
        The label of the recipe that all others are compared with; without it a projected one is compared with its base.
    together
        Whether both measures share one table, which also has p-values and the time of an impression.
    worst
        Whether to show the worst run of each cell.
    recipes
        The labels of the recipes in the tables; all by default.

    Examples
    --------
    Two recipes with one user make two tables of two rows:

    >>> from duelrank import parse
    >>> from duelrank.experiments import Study, compare
    >>> from duelrank.experiments.suite import Tables
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
        summaries = [study.summary(measure, self.baseline, self.recipes) for measure in MEASURES]
        if self.together:
            return (performance_table(summaries, study.labels, detailed=True, worst=self.worst),)
        ours = [performance_table(summary, study.labels, worst=self.worst) for summary in summaries]
        return *ours[:-1], _with_skyline(ours[-1], study), *self._published(study)

    def _published(self, study: Study) -> list[Table]:
        names = {study.algorithm(label): row for label, row in study.published.items() if label in study.recipes}
        found = [replicate(study.runs(), measure, names) for measure in MEASURES] if names else []
        return [replication_table(each, study.labels) for each in found if each.cells]

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return all means with their confidence intervals, a figure per data set."""
        return tuple(
            Picture(
                f"{self._name}-{dataset}",
                performance(study.runs(self.recipes, dataset), study.labels, title=dataset),
                f"{self.title}, {dataset}: mean and 95% confidence interval of every algorithm.",
            )
            for dataset in study.datasets
        )

    @property
    def _name(self) -> str:
        return f"performance-{self.baseline}".lower() if self.recipes else "performance"

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
    >>> from duelrank.experiments.suite import League
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


@register
@dataclass(frozen=True, repr=False, kw_only=True)
class Curves(Experiment):
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
    >>> from duelrank.experiments.suite import Curves
    >>> frame = compare(["dbgd", "mgd"], "synthetic(n_queries=20)", "perfect", runs=1, impressions=50, workers=1)
    >>> study = Study(frame, {"DBGD": parse("dbgd"), "MGD": parse("mgd")}, {}, {})
    >>> [picture.name for picture in Curves(title="Learning", recipes=("MGD",)).figures(study)]
    ['learning-synthetic(n_queries=20)']
    """

    recipes: tuple[str, ...] = ()
    column: CurveColumn = "offline_curve"
    measure: str = ""
    skyline: bool = False

    def figures(self, study: Study) -> tuple[Picture, ...]:
        """Return a figure per data set."""
        return tuple(self._picture(study, dataset) for dataset in study.datasets)

    def _picture(self, study: Study, dataset: str) -> Picture:
        skyline = study.skylines.get(dataset) if self.skyline else None
        chosen = study.runs(self.recipes, dataset)
        figure = learning_curves(chosen, self.column, study.labels, skyline, title=dataset)
        measure = self.measure or self.column.replace("_", " ")
        return Picture(f"{self.title.lower()}-{dataset}", figure, f"{self.title}: {measure}, {dataset}.")

    def recipes_of(self, study: Study) -> dict[str, Algorithm]:
        """Return the recipes to draw."""
        return {label: study.recipes[label] for label in self.recipes or study.recipes}

    def labels(self) -> tuple[str, ...]:
        """Return the labels of the recipes to draw."""
        return self.recipes

    def only(self, labels: Collection[str]) -> Experiment | None:
        """Draw only the remaining recipes."""
        left = tuple(label for label in self.recipes if label in labels)
        return replace(self, recipes=left) if left or not self.recipes else None

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

    >>> from duelrank.experiments.suite import Sweep
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
        figure = sweep(chosen, points, measure, self.parameter or self.field, self.label, base, title=dataset)
        return Picture(f"{self.field}-{measure}-{dataset}", figure, f"{self.title}: {measure}, {dataset}.")

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
    >>> from duelrank.experiments.suite import Ablation
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
        where = f"{dataset}, {n_candidates} candidates"
        figure = ablation(chosen, arms, title=where)
        return Picture(f"ablation-{n_candidates}-{dataset}", figure, f"{self.title} {where}.")


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
