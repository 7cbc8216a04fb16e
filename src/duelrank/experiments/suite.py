"""Suites: experiments as data files, from the runs that they need to the questions that they answer."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, Literal

from duelrank.algorithms import Algorithm
from duelrank.datasets import Dataset
from duelrank.errors import InvalidValue, UnknownName
from duelrank.experiments.grid import Grid
from duelrank.grammar import parse
from duelrank.registry import override
from duelrank.simulation import RunSpec
from duelrank.users import User

__all__ = ["Experiment", "Suite", "load_suite", "read_suite", "suite_names"]

_KINDS = ("tables", "league", "curves", "sweep", "ablation")


@dataclass(frozen=True)
class Experiment:
    """One question, and how its answer is shown.

    Parameters
    ----------
    kind
        "tables": both tables over all recipes; "league": one table, a line per recipe; "curves": a column of curves over
        impressions; "sweep": both measures against the values of one parameter; "ablation": both measures of all recipes as points.
    recipes
        For curves: the labels of the recipes that are drawn.
    baseline
        For tables: the label of the recipe that all others are compared with; without it a projected one is compared with its base.
    column, measure, skyline
        For curves: which column, what its axis says, and whether the offline reference is drawn.
    parameter, field, values, label, recipe, base
        For a sweep: the symbol, the field that is varied and its values; the label of the recipe that is varied, the recipe,
        and the label of what it is compared with.
    """

    kind: Literal["tables", "league", "curves", "sweep", "ablation"]
    title: str
    question: str
    text: str = ""
    recipes: tuple[str, ...] = ()
    baseline: str = ""
    column: str = "offline_curve"
    measure: str = ""
    skyline: bool = False
    parameter: str = ""
    field: str = ""
    values: tuple[float, ...] = ()
    label: str = ""
    recipe: str = ""
    base: str = ""

    def varied(self) -> list[tuple[float, Algorithm]]:
        """Return the recipes of a sweep, each with the value that it has."""
        algorithm = parse(self.recipe, Algorithm) if self.recipe else None
        return [(value, override(algorithm, {self.field: value}, self.recipe)) for value in self.values if algorithm]


@dataclass(frozen=True)
class Suite:
    """A set of experiments that share their runs."""

    name: str
    title: str
    datasets: tuple[str, ...]
    users: tuple[str, ...]
    runs: int
    impressions: int
    recipes: dict[str, str]
    experiments: tuple[Experiment, ...]
    published: dict[str, str] = field(default_factory=dict)

    def algorithms(self) -> list[Algorithm]:
        """Return every algorithm that some experiment needs, each once."""
        named = [parse(recipe, Algorithm) for recipe in self.recipes.values()]
        varied = [algorithm for experiment in self.experiments for _, algorithm in experiment.varied()]
        return list(dict.fromkeys(named + varied))

    def specs(self, dataset: Dataset) -> list[RunSpec]:
        """Return the runs on one data set."""
        users = tuple(parse(user, User) for user in self.users)
        return Grid(tuple(self.algorithms()), dataset, users, self.runs, self.impressions).specs()

    @property
    def needs_reference(self) -> bool:
        """Whether something is drawn that the offline reference is part of."""
        return any(experiment.skyline or experiment.column == "cosine_curve" for experiment in self.experiments)

    def only(self, labels: Sequence[str]) -> Suite:
        """Return the suite with some of its recipes; experiments that need another one are left out."""
        chosen = {self._label(label): self.recipes[self._label(label)] for label in labels}
        kept = tuple(fitted for each in self.experiments if (fitted := _fit(each, chosen)) is not None)
        return replace(self, recipes=chosen, experiments=kept)

    def _label(self, name: str) -> str:
        by_name = {label.lower(): label for label in self.recipes} | {
            recipe: label for label, recipe in self.recipes.items()
        }
        if name not in by_name and name.lower() not in by_name:
            raise UnknownName.among(f"algorithm of {self.name}", name, [*self.recipes, *self.recipes.values()])
        return by_name.get(name) or by_name[name.lower()]


def _fit(experiment: Experiment, chosen: dict[str, str]) -> Experiment | None:
    if experiment.kind == "curves":
        left = tuple(label for label in experiment.recipes if label in chosen)
        return replace(experiment, recipes=left) if left else None
    if experiment.kind == "sweep":
        return experiment if experiment.base in chosen and experiment.label in chosen else None
    return experiment if experiment.baseline in chosen else replace(experiment, baseline="")


def suite_names() -> list[str]:
    """Return the suites that there are."""
    return sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml"))


def load_suite(name: str) -> Suite:
    """Read a suite by name."""
    if name not in suite_names():
        raise UnknownName.among("suite", name, suite_names())
    return read_suite(name, _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def read_suite(name: str, text: str) -> Suite:
    """Read a suite from its text; what it names must exist."""
    try:
        content: dict[str, Any] = tomllib.loads(text)
        experiments = tuple(_experiment(given) for given in content.pop("experiments"))
        lists: dict[str, Any] = {key: tuple(content.pop(key)) for key in ("datasets", "users")}
        suite = Suite(name, experiments=experiments, **lists, **content)
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise InvalidValue(f"the suite {name} cannot be read: {error}") from None
    labels = {label for each in experiments for label in (*each.recipes, each.base, each.baseline) if label}
    for label in sorted(labels | set(suite.published)):
        if label not in suite.recipes:
            raise UnknownName.among(f"recipe of {name}", label, suite.recipes)
    return suite


def _experiment(given: dict[str, Any]) -> Experiment:
    if given.get("kind") not in _KINDS:
        raise TypeError(f"the kind of an experiment is one of {', '.join(_KINDS)}, got {given.get('kind')!r}")
    content: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return Experiment(**content)


def _folder() -> Any:
    return resources.files("duelrank.experiments") / "suites"
