"""What a suite's results say: tables, figures and the report, from the frame of all its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duelrank.algorithms import Algorithm, Projected
from duelrank.errors import UnknownName
from duelrank.experiments.atomically import write_bytes
from duelrank.experiments.facts import facts_of
from duelrank.experiments.figures import Arm, ablation, run_curves, save, sweep, to_svg
from duelrank.experiments.frame import Frame
from duelrank.experiments.league import league
from duelrank.experiments.published import beside_published
from duelrank.experiments.rendering import (
    league_csv,
    league_html,
    league_markdown,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
)
from duelrank.experiments.report import Picture, Section, write_report
from duelrank.experiments.reproduce import Plan
from duelrank.experiments.suite import Experiment
from duelrank.experiments.tables import Measure, table
from duelrank.grammar import parse
from duelrank.registry import spell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MEASURES", "baseline_of", "labels_of", "present", "skyline_of"]

MEASURES: tuple[Measure, Measure] = ("online", "offline")


def present(plan: Plan, frame: Frame, folder: Path, wall_seconds: float | None = None, command: str = "") -> Path:
    """Write every table and figure of a suite into a folder, and return the path of the report that holds them all."""
    desk = _Desk(plan, frame, folder, labels_of(plan))
    sections = [_SHOW[experiment.kind](desk, experiment) for experiment in plan.suite.experiments]
    facts = facts_of(frame, wall_seconds, command)
    if plan.skipped:
        facts["Not installed"] = ", ".join(plan.skipped)
    return write_report(folder, plan.suite.title, sections, facts)


def labels_of(plan: Plan) -> dict[str, str]:
    """Return the label of each recipe of a suite, by the text that tables have for it."""
    return {spell(parse(recipe, Algorithm)): label for label, recipe in plan.suite.recipes.items()}


def baseline_of(plan: Plan) -> str:
    """Return the recipe that the tables of a suite compare all others with; nothing where there is none."""
    labels = [experiment.baseline for experiment in plan.suite.experiments if experiment.baseline]
    return spell(parse(plan.suite.recipes[labels[0]], Algorithm)) if labels else ""


@dataclass(frozen=True)
class _Desk:
    """All that a section is made of."""

    plan: Plan
    frame: Frame
    folder: Path
    labels: Mapping[str, str]

    def recipe(self, label: str) -> str:
        """The spelled recipe of a label."""
        for recipe, found in self.labels.items():
            if found == label:
                return recipe
        raise UnknownName.among("recipe", label, self.labels.values())

    def datasets(self) -> Iterator[tuple[str, Frame]]:
        """The runs on each data set."""
        for (dataset,), runs in self.frame.groups("dataset"):
            yield dataset, runs

    def picture(self, figure: Figure, name: str, caption: str) -> Picture:
        """Save a figure and return it for the report."""
        save(figure, self.folder / "figures", name.replace(" ", "-"))
        return Picture(to_svg(figure), caption)

    def write(self, name: str, text: str) -> None:
        """Write one file of text."""
        write_bytes(self.folder / name, text.encode())


def _tables(desk: _Desk, experiment: Experiment) -> Section:
    frame = desk.frame.among("algorithm", desk.labels)
    skyline = skyline_of(desk.plan)
    names = {
        desk.recipe(label): row for label, row in desk.plan.suite.published.items() if label in desk.labels.values()
    }
    shown = []
    for measure in MEASURES:
        ours = table(frame, measure, baseline_of(desk.plan))
        below = f"\n{skyline}\n" if measure == "offline" and skyline else ""
        desk.write(f"{measure}.md", to_markdown(ours, desk.labels) + below)
        desk.write(f"{measure}.csv", to_csv(ours, desk.labels))
        desk.write(f"{measure}.tex", to_latex(ours, desk.labels))
        shown.append(to_html(ours, desk.labels))
    for measure in MEASURES:
        beside = beside_published(frame, measure, names)
        if beside.rows:
            desk.write(f"{measure}-published.md", to_markdown(beside, desk.labels))
            desk.write(f"{measure}-published.csv", to_csv(beside, desk.labels))
            shown.append(to_html(beside, desk.labels))
    shown.append(f"<p>{escape(skyline)}</p>" if skyline else "")
    return _section(experiment, tables=tuple(shown), recipes=_recipes(desk, desk.labels))


def _league(desk: _Desk, experiment: Experiment) -> Section:
    shown = []
    for name, runs in desk.datasets():
        standings = league(runs.among("algorithm", desk.labels))
        desk.write(f"league-{name}.md", league_markdown(standings, desk.labels))
        desk.write(f"league-{name}.csv", league_csv(standings))
        shown.append(league_html(standings, desk.labels))
    return _section(experiment, tables=tuple(shown), recipes=_recipes(desk, desk.labels))


def skyline_of(plan: Plan) -> str:
    """Say how good the offline reference is on each data set; nothing where the suite does not use it."""
    found = [(spell(dataset), plan.skyline(dataset)) for dataset in plan.datasets]
    numbers = ", ".join(f"{name} {value:.3f}" for name, value in found if value is not None)
    return f"Skyline, a linear LambdaRank trained on all labels (offline nDCG@10): {numbers}." if numbers else ""


def _curves(desk: _Desk, experiment: Experiment) -> Section:
    recipes = [desk.recipe(label) for label in experiment.recipes]
    pictures = []
    for dataset, (name, runs) in zip(desk.plan.datasets, desk.datasets(), strict=True):
        skyline = desk.plan.skyline(dataset) if experiment.skyline else None
        chosen = runs.among("algorithm", recipes)
        figure = run_curves(chosen, experiment.column, labels=desk.labels, skyline=skyline, title=name)  # type: ignore[arg-type]
        place = f"{experiment.title.lower()}-{name}"
        pictures.append(desk.picture(figure, place, f"{experiment.title}: {experiment.measure}, {name}."))
    return _section(experiment, figures=tuple(pictures), recipes=_recipes(desk, recipes))


def _sweep(desk: _Desk, experiment: Experiment) -> Section:
    points = [(value, spell(algorithm)) for value, algorithm in experiment.varied()]
    base = desk.recipe(experiment.base)
    pictures = []
    for name, runs in desk.datasets():
        chosen = runs.among("algorithm", [base, *(recipe for _, recipe in points)])
        for measure in MEASURES:
            labels = {**desk.labels, **{recipe: experiment.label for _, recipe in points}}
            figure = sweep(chosen, points, measure, experiment.parameter, labels=labels, title=name)
            place = f"{experiment.field}-{measure}-{name}"
            pictures.append(desk.picture(figure, place, f"{experiment.title}: {measure}, {name}."))
    varied = tuple((f"{experiment.label}, {experiment.parameter} = {value:g}", recipe) for value, recipe in points)
    return _section(experiment, figures=tuple(pictures), recipes=(*_recipes(desk, [base]), *varied))


def _ablation(desk: _Desk, experiment: Experiment) -> Section:
    tables = _tables(desk, experiment)
    arms: dict[int, list[Arm]] = {}
    for recipe in desk.labels:
        algorithm: Any = parse(recipe)
        plain: Any = algorithm.base if isinstance(algorithm, Projected) else algorithm
        arms.setdefault(plain.exploration.n_candidates, []).append(_arm(algorithm, recipe))
    pictures = []
    for name, runs in desk.datasets():
        for n_candidates, group in arms.items():
            chosen = runs.among("algorithm", [arm.recipe for arm in group])
            figure = ablation(chosen, group, title=f"{name}, {n_candidates} candidates")
            caption = f"{experiment.title} {name}, {n_candidates} candidates."
            pictures.append(desk.picture(figure, f"ablation-{n_candidates}-{name}", caption))
    return _section(experiment, tables=tables.tables, figures=tuple(pictures), recipes=tables.recipes)


def _arm(algorithm: Any, recipe: str) -> Arm:
    """Say how a recipe projects and rescales: an ablation is over document spaces and means of winners."""
    if isinstance(algorithm, Projected):
        space: Any = algorithm.projection
        return Arm(f"projected, r = {space.remembered}", "unit step" if space.rescale == "unit" else "as it is", recipe)
    return Arm("not projected", "unit step" if algorithm.inference.unit else "as it is", recipe)


def _recipes(desk: _Desk, recipes: Mapping[str, str] | list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((desk.labels[recipe], recipe) for recipe in recipes)


def _section(
    experiment: Experiment,
    tables: tuple[str, ...] = (),
    figures: tuple[Picture, ...] = (),
    recipes: tuple[tuple[str, str], ...] = (),
) -> Section:
    return Section(experiment.title, experiment.question, experiment.text, tables, figures, recipes)


_SHOW: dict[str, Callable[[_Desk, Experiment], Section]] = {
    "tables": _tables,
    "league": _league,
    "curves": _curves,
    "sweep": _sweep,
    "ablation": _ablation,
}
