"""Reads suites of experiments from TOML files, shipped with the package or written by users."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from duelrank.algorithms import Algorithm
from duelrank.core.errors import DuelrankError, InvalidValue, MissingData, UnknownName
from duelrank.core.grammar import listed, parse
from duelrank.core.registry import Part, aliases, classes
from duelrank.datasets import Dataset
from duelrank.experiments.experiment import Experiment, Grid
from duelrank.metrics import Metric
from duelrank.simulation import Guarded, RunSpec
from duelrank.users import User

_ALL = "all"  # as the value of ``recipes``: every algorithm with a short name, at its defaults

T = TypeVar("T")


@dataclass(frozen=True)
class Suite:
    """A set of experiments that share their runs; the fields are the keys of a suite file.

    Parameters
    ----------
    datasets, users
        Texts, as on the command line.
    runs
        Number of runs per algorithm and user: one per fold first, then further seeds.
    recipes
        From each label to its recipe.
    published
        From a label to the paper's row for it.
    impressions, length, metric, split
        As in `RunSpec`.
    guards
        From each label to a guard, for the experiments that name it.

    Examples
    --------
    >>> from duelrank.experiments import load_suite
    >>> suite = load_suite("sigir19")
    >>> suite.runs, suite.impressions
    (75, 10000)
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    users: tuple[str, ...]
    runs: int
    recipes: dict[str, str]
    experiments: tuple[Experiment, ...]
    impressions: int = 10_000
    published: dict[str, str] = field(default_factory=dict)
    length: int = 10
    metric: str = "nDCG@10"
    split: Literal["test", "validation"] = "test"
    guards: dict[str, str] = field(default_factory=dict)

    def guard_parts(self) -> dict[str, Guarded]:
        """Return the guard of each label."""
        return {label: parse(guard, Guarded) for label, guard in self.guards.items()}

    def labelled(self) -> dict[str, Algorithm]:
        """Return the algorithm of each label."""
        return {label: parse(recipe, Algorithm) for label, recipe in self.recipes.items()}

    def algorithms(self) -> list[Algorithm]:
        """Return all algorithms that the experiments need, without duplicates."""
        further = [algorithm for experiment in self.experiments for algorithm in experiment.algorithms().values()]
        return list(dict.fromkeys([*self.labelled().values(), *further]))

    def specs(self, dataset: Dataset) -> list[RunSpec]:
        """Return the runs on one data set."""
        settings = (self.runs, self.impressions, self.length, self.metric, self.split)
        grid = Grid(self.algorithms(), dataset, self.users, *settings)
        recipes, guards = self.labelled(), self.guard_parts()
        further = [each for experiment in self.experiments for each in experiment.further(grid, recipes, guards)]
        return list(dict.fromkeys(spec for each in (grid, *further) for spec in each.specs()))

    @property
    def needs_reference(self) -> bool:
        """Whether any table or figure needs the offline reference."""
        return any(experiment.needs_reference for experiment in self.experiments)

    def only(self, labels: Sequence[str]) -> Suite:
        """Return the suite with some of its recipes, without the experiments that need other recipes."""
        chosen = {self._label(label): self.recipes[self._label(label)] for label in labels}
        kept = tuple(fitted for each in self.experiments if (fitted := each.only(chosen)) is not None)
        return replace(self, recipes=chosen, experiments=kept)

    def _label(self, name: str) -> str:
        by_name = {label.lower(): label for label in self.recipes} | {
            recipe: label for label, recipe in self.recipes.items()
        }
        if name not in by_name and name.lower() not in by_name:
            raise UnknownName.among(f"algorithm of {self.name}", name, [*self.recipes, *self.recipes.values()])
        return by_name.get(name) or by_name[name.lower()]


def suite_names() -> list[str]:
    """Return the names of the shipped suites.

    Examples
    --------
    >>> from duelrank.experiments.suite import suite_names
    >>> "sigir19" in suite_names()
    True
    """
    return sorted(path.name.removesuffix(".toml") for path in _folder().iterdir() if path.name.endswith(".toml"))


def load_suite(name: str) -> Suite:
    """Read a suite by its name, or by the path of a ``.toml`` file.

    Examples
    --------
    >>> from duelrank.experiments import load_suite
    >>> suite = load_suite("quick")
    >>> suite.users, len(suite.recipes)
    (('perfect', 'navigational', 'informational'), 6)
    """
    if name.endswith(".toml"):
        return _load_file(Path(name))
    if name not in suite_names():
        raise UnknownName.among("suite", name, suite_names())
    return read_suite(name, _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _load_file(path: Path) -> Suite:
    try:
        return read_suite(path.stem, path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise MissingData(f"cannot read the suite {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InvalidValue(f"cannot read the suite {path}: it is not UTF-8 ({error.reason})") from None


def read_suite(name: str, text: str, where: str = "") -> Suite:
    """Read a suite from the text of its file; all names in it must exist.

    Parameters
    ----------
    where
        The name of the file in error messages; the name of the suite by default.
    """
    where = where or name
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(f"{where} is not valid TOML: {error}") from None
    if content.get("recipes") == _ALL:
        content["recipes"] = {alias: alias for alias in aliases(Algorithm)}
    suite = Suite(name=name, **_arguments(content, where))
    _check_names(suite, where)
    return suite


def _arguments(content: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the arguments of a `Suite` from the keys of its file."""
    hints = get_type_hints(Suite) | {"experiments": list[dict[str, Any]]}
    known = {item.name: item for item in fields(Suite) if item.name != "name"}
    for key in content:
        if key not in known:
            raise InvalidValue(f"{where}: {UnknownName.among('key', key, known)}")
    for key, item in known.items():
        if key not in content and item.default is item.default_factory is MISSING:
            raise InvalidValue(f"{where}: the key {key} is missing")
    given = {key: _converted(value, hints[key], f"{where}: {key}") for key, value in content.items()}
    tables = enumerate(given["experiments"], start=1)
    return given | {"experiments": tuple(_experiment(table, f"{where}, experiment {n}") for n, table in tables)}


def _converted(value: Any, hint: Any, where: str) -> Any:
    """Return a value of a suite file as its type hint requires: lists become tuples."""
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        choices = f"; it must be {' or '.join(map(repr, get_args(hint)))}" if get_origin(hint) is Literal else ""
        raise InvalidValue(f"{where}: {error}{choices}") from None


def _experiment(table: dict[str, Any], where: str) -> Experiment:
    kinds: dict[str, Any] = {_kebab(name): cls for name, cls in classes(Experiment).items()}
    kind = table.get("kind")
    if kind not in kinds:
        hint = UnknownName.among("kind", kind, kinds) if isinstance(kind, str) else f"got {kind!r}"
        raise InvalidValue(f"{where}: kind must be one of {', '.join(sorted(kinds))}; {hint}")
    where, hints = f"{where} ({kind})", get_type_hints(kinds[kind])
    content = {key: value for key, value in table.items() if key != "kind"}
    given = {key: _converted(value, hints.get(key, Any), f"{where}: {key}") for key, value in content.items()}
    experiment: Experiment = _located(where, kinds[kind], **given)
    _located(where, experiment.algorithms)
    return experiment


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _check_names(suite: Suite, where: str) -> None:
    """Raise an error that names the key if a name in a suite does not exist."""
    kinds: tuple[tuple[str, dict[str, str], type[Part]], ...] = (
        ("recipes.", suite.recipes, Algorithm),
        ("datasets: ", dict.fromkeys(listed(suite.datasets), ""), Dataset),
        ("users: ", dict.fromkeys(listed(suite.users), ""), User),
        ("metric: ", {suite.metric: ""}, Metric),
        ("guards.", suite.guards, Guarded),
    )
    for key, texts, kind in kinds:
        for name, recipe in texts.items():
            _located(f"{where}: {key}{name}", parse, recipe or name, kind)
    for n, each in enumerate(suite.experiments, start=1):
        _check_labels("recipe", each.labels(), suite.recipes, f"{where}, experiment {n}")
        _check_labels("guard", each.guard_labels(), suite.guards, f"{where}, experiment {n}")
    _check_labels("recipe", suite.published, suite.recipes, f"{where}, published")
    if not suite.experiments:
        raise InvalidValue(f"{where}: the suite has no experiments; add one under [[experiments]]")


def _check_labels(what: str, labels: Iterable[str], known: Collection[str], where: str) -> None:
    for label in labels:
        if label not in known:
            raise InvalidValue(f"{where}: {UnknownName.among(what, label, known)}")


def _located(where: str, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call a function; prefix the message of a `DuelrankError` with the place in the suite file."""
    try:
        return call(*arguments, **named)
    except DuelrankError as error:
        raise InvalidValue(f"{where}: {error}") from None


def _folder() -> Any:
    return resources.files("duelrank.experiments") / "suites"
