"""Defines the settings of a search: the parameters that it varies, the objective that it maximises, and the runs of a trial."""

from __future__ import annotations

import ast
import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.core.errors import DataFormatError, InvalidValue, UnknownName
from duelrank.core.files import write_bytes
from duelrank.core.registry import Between, P, Part, replaced_at, spell, type_hint, walk
from duelrank.core.validation import whole_number
from duelrank.datasets import Dataset
from duelrank.metrics import Metric, nDCG
from duelrank.simulation import RunSpec
from duelrank.users import User

#: The first seed of the runs of a search. Reports use seeds from 1 up: no recipe is tuned on the runs that report its performance.
FIRST_SEED = 101

#: Optuna's samplers by our names.
SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler"}

#: The value of a parameter.
Value = float | int | str | bool | None

#: The names of the fields that lead to a parameter.
FieldPath = tuple[str, ...]

#: For each cell (data set and user, as texts) a row per run: reward (discounted sum over the shown lists) and validation quality.
Measurements = Mapping[tuple[str, str], NDArray[np.float64]]

_FILE = "tune.json"
_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True)
class Parameter:
    """A parameter that a search varies: in a range, or among choices.

    Parameters
    ----------
    name
        Name of the field, preceded by its path if two parts of the recipe have a field of that name.
    path
        Names of the fields that lead to the parameter.
    low, high, log, whole
        The ends of the range, whether its scale is logarithmic, and whether only whole numbers are tried.
    choices
        The values to choose from, instead of a range.
    start
        Value of the first trial: that of the recipe, or the closest one within the range.
    """

    name: str
    path: FieldPath
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Value, ...] = ()
    start: Value = None

    def rounded(self, value: Any) -> Any:
        """Return a value with four digits; the start value is returned unchanged."""
        if self.choices or self.whole or value == self.start:
            return value
        digits = 3 - math.floor(math.log10(value)) if self.log else 4 - math.floor(math.log10(self.high - self.low))
        return min(max(round(value, digits), self.low), self.high)

    def __str__(self) -> str:
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        return f"from {self.low:g} to {self.high:g}{', by factors' if self.log else ''}"


def search_space(recipe: Part, vary: Sequence[str] = (), fix: Sequence[str] = ()) -> tuple[Parameter, ...]:
    """Return the parameters of a recipe to search: those with a declared range, or only the named ones.

    Parameters
    ----------
    vary
        Names of parameters: ``learning_rate``; with a range: ``learning_rate=0.01:1:log``, ``beyond=0:5``; with choices:
        ``n_candidates=9,49``, ``rescale=unit,preserve``, ``slow_down=None,100,1000``.
    fix
        Names of parameters that keep their value.
    """
    known = dict(_fields(recipe))
    fixed = {_find(known, name) for name in fix}
    named = [text.partition("=") for text in vary]
    asked = {_find(known, name.strip()): wanted.strip() for name, _, wanted in named}
    paths = list(asked or _declared(recipe, known))
    found = tuple(_parameter(recipe, known, path, asked.get(path, "")) for path in paths if path not in fixed)
    if not found:
        names = ", ".join(_name(known, path) for path in known)
        raise InvalidValue(
            f"nothing to search: {spell(recipe)} has no parameter with a declared range"
            f"{' that is not fixed' if fixed else ''}; name one: --vary NAME=LOW:HIGH (it has {names})"
        )
    return found


def with_values(recipe: P, space: Sequence[Parameter], values: Mapping[str, Any]) -> P:
    """Return a recipe with other values of parameters; numbers get four digits, so that its text stays readable."""
    return replaced_at(recipe, {each.path: each.rounded(values[each.name]) for each in space})


def variants(recipe: P, space: Sequence[Parameter]) -> list[P]:
    """Return a recipe with each choice, and with both ends of each range, one parameter at a time."""
    found = []
    for each in space:
        ends = (int(each.low), int(each.high)) if each.whole else (each.low, each.high)
        found += [replaced_at(recipe, {each.path: value}) for value in each.choices or ends]
    return found


def value_at(recipe: Part, path: FieldPath) -> Any:
    """Return the value of a parameter of a recipe."""
    found: Any = recipe
    for name in path:
        found = getattr(found, name)
    return found


def _fields(recipe: Part) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the path and the type hint of each parameter that is not itself a part."""
    for path, owner in walk(recipe):
        for item in fields(owner):
            hint = type_hint(type(owner), item.name)
            if _options(hint) or _numbers(hint):
                yield (*path, item.name), hint


def _declared(recipe: Part, known: Mapping[FieldPath, Any]) -> Iterator[FieldPath]:
    """Yield the parameters with a declared range, except those without effect and those that a search must not change."""
    closed = {
        (*path, *name.split(".")) for path, owner in walk(recipe) for name in owner.inert_fields | owner.untuned_fields
    }
    for path, hint in known.items():
        numbers = _numbers(hint)
        declared = numbers is not None and bool(numbers[1].tuned or numbers[1].choices)
        if declared and not any(path[: len(prefix)] == prefix for prefix in closed):
            yield path


def _numbers(hint: Any) -> tuple[bool, Between] | None:
    """Return whether a type hint requires whole numbers, and their bounds; None if it does not require a number."""
    for option in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        inner, bounds = get_args(option) if get_origin(option) is Annotated else (option, Between())
        if inner in (int, float):
            return inner is int, bounds
    return None


def _options(hint: Any) -> tuple[Value, ...]:
    """Return all values of a type hint that allows only a few."""
    if hint is bool:
        return (False, True)
    return get_args(hint) if get_origin(hint) is Literal else ()


def _name(known: Mapping[FieldPath, Any], path: FieldPath) -> str:
    """Return the shortest unambiguous name of a parameter."""
    same = [other for other in known if other[-1] == path[-1]]
    return path[-1] if len(same) == 1 else ".".join(path)


def _find(known: Mapping[FieldPath, Any], name: str) -> FieldPath:
    """Return the path of a parameter that is given by its name or by its whole path."""
    found = [path for path in known if name in (path[-1], ".".join(path))]
    if not found:
        raise UnknownName.among("parameter", name, [_name(known, path) for path in known])
    if len(found) > 1:
        places = ", ".join(".".join(path) for path in found)
        raise InvalidValue(f"{name!r} could be any of {places}: give one of these")
    return found[0]


def _parameter(recipe: Part, known: Mapping[FieldPath, Any], path: FieldPath, wanted: str) -> Parameter:
    name, numbers, value = _name(known, path), _numbers(known[path]), value_at(recipe, path)
    if wanted and ":" in wanted and numbers:
        return _in_range(recipe, name, path, numbers, value, *_given_range(name, wanted, numbers[0]))
    if wanted:
        return _among(recipe, name, path, [_plain(each.strip()) for each in wanted.split(",")], value)
    if numbers is None:
        return _among(recipe, name, path, _options(known[path]), value)
    bounds = numbers[1]
    if bounds.choices:
        return _among(recipe, name, path, sorted({*bounds.choices, *([] if value is None else [value])}), value)
    if bounds.tuned is None:
        raise InvalidValue(f"{name} has no declared range: give one, --vary {name}=LOW:HIGH or {name}=LOW:HIGH:log")
    low, high = bounds.tuned
    if value is not None and (value > 0 or not bounds.log):
        low, high = min(low, value), max(high, value)  # the range always includes the recipe's own value
    return _in_range(recipe, name, path, numbers, value, low, high, bounds.log)


def _in_range(
    recipe: Part,
    name: str,
    path: FieldPath,
    numbers: tuple[bool, Between],
    value: Value,
    low: float,
    high: float,
    log: bool,
) -> Parameter:
    whole, bounds = numbers
    end = low if bounds.none == "low" else high
    start = end if value is None else min(max(float(value), low), high)
    for number in (low, high):
        replaced_at(recipe, {path: int(number) if whole else number})  # raises an error if it is not allowed
    return Parameter(name, path, low, high, log, whole, (), int(start) if whole else start)


def _among(recipe: Part, name: str, path: FieldPath, choices: Sequence[Value], value: Value) -> Parameter:
    made = [replaced_at(recipe, {path: choice}) for choice in choices]  # raises an error if one is not allowed
    checked = tuple(dict.fromkeys(value_at(each, path) for each in made))
    return Parameter(name, path, choices=checked, start=value if value in checked else checked[0])


def _given_range(name: str, text: str, whole: bool) -> tuple[float, float, bool]:
    """Read ``low:high`` or ``low:high:log``."""
    first, _, rest = text.partition(":")
    last, _, how = rest.partition(":")
    low, high = _plain(first.strip()), _plain(last.strip())
    usual = int if whole else (int, float)
    if not isinstance(low, usual) or not isinstance(high, usual) or how not in ("", "log"):
        kind = "whole numbers" if whole else "numbers"
        raise InvalidValue(f"the range of {name} must be LOW:HIGH or LOW:HIGH:log with {kind}, got {text!r}")
    if not low < high or (how and low <= 0):
        raise InvalidValue(f"the range of {name} must ascend{' from above 0' if how else ''}, got {text!r}")
    return float(low), float(high), bool(how)


def _plain(text: str) -> Any:
    """Return the number, None, True or False that a text denotes; otherwise the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


@dataclass(frozen=True)
class Scores:
    """The results of a recipe relative to the start recipe; 1 means equally good.

    Parameters
    ----------
    value
        The objective.
    reward, validation
        Means over cells of the mean over runs.
    worst_reward, worst_validation
        Means over cells of the worst run.
    floor
        The smallest value of a data set; NaN in a search of an earlier version.
    """

    value: float
    reward: float
    validation: float
    worst_reward: float
    worst_validation: float
    floor: float = math.nan


@dataclass(frozen=True)
class Objective:
    """The weighted mean of relative reward and relative validation quality; larger is better.

    In each cell (a data set and a user) both measures are divided by their mean over the same runs of the start recipe. So all
    cells and both measures have equal influence, whatever their scales, and 1.05 is five percent better than the start recipe.

    Parameters
    ----------
    reward, validation
        Weights of the two measures.
    worst
        Weight of the worst run of each cell, relative to the mean of its runs: a penalty for recipes with unstable results.
    floor
        Weight of the data set with the smallest value, relative to the mean over data sets: with 1, both count alike.

    Notes
    -----
    With the relative measures r and v of a cell (means over its runs) and r′ and v′ (of its worst run), the value of the cell is
    (reward · (r + worst · r′) + validation · (v + worst · v′)) / ((reward + validation) · (1 + worst)), the value of a data set is
    the mean over its cells, and the objective is (mean over data sets + floor · minimum over data sets) / (1 + floor).

    Examples
    --------
    >>> Objective.parse("reward=2, validation=1, worst=0.5")
    Objective(reward=2.0, validation=1.0, worst=0.5, floor=0.0)
    >>> Objective.parse("reward, validation, floor")
    Objective(reward=1.0, validation=1.0, worst=0.0, floor=1.0)
    """

    reward: float = 1.0
    validation: float = 1.0
    worst: float = 0.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        valid = all(0.0 <= weight < float("inf") for weight in asdict(self).values())
        if not valid or not self.reward + self.validation:
            raise InvalidValue(
                f"the weights of an objective are numbers from 0 up, and reward or validation counts; got "
                f"{str(self) or 'none'}"
            )

    def __str__(self) -> str:
        return ", ".join(f"{name}={weight:g}" for name, weight in asdict(self).items() if weight)

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Read ``reward``, ``validation`` or weights such as ``reward=2,validation=1,worst=0.5``; other weights are 0."""
        weights = dict.fromkeys((item.name for item in fields(cls)), 0.0)
        for item in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, number = (piece.strip() for piece in item.partition("="))
            if name not in weights:
                raise UnknownName.among("measure of an objective", name, weights)
            try:
                weights[name] = float(number) if number else 1.0
            except ValueError:
                raise InvalidValue(f"the weight of {name} must be a number, got {number!r}") from None
        return cls(**weights)

    def scores(self, measured: Measurements, reference: Measurements) -> Scores:
        """Return the results of a recipe relative to those of the start recipe in the same runs."""
        levels = {cell: runs.mean(axis=0) for cell, runs in reference.items()}
        for cell, level in levels.items():
            if not (level > 0.0).all():
                raise InvalidValue(
                    f"the recipe that the search begins with earns nothing on {' with the user '.join(cell)}, so nothing can "
                    "be relative to it: begin with a better one, or show more lists"
                )
        means = np.array([measured[cell].mean(axis=0) / level for cell, level in levels.items()])
        worst = np.array([measured[cell].min(axis=0) / level for cell, level in levels.items()])
        weights = np.array([self.reward, self.validation])
        values = (weights * (means + self.worst * worst)).sum(axis=1) / (weights.sum() * (1.0 + self.worst))
        by_dataset: dict[str, list[float]] = {}
        for (dataset, _), value in zip(levels, values.tolist(), strict=True):
            by_dataset.setdefault(dataset, []).append(value)
        each = [np.mean(theirs) for theirs in by_dataset.values()]
        value = (np.mean(each) + self.floor * min(each)) / (1.0 + self.floor)
        return Scores(*map(float, (value, *means.mean(axis=0), *worst.mean(axis=0), min(each))))


@dataclass(frozen=True)
class Settings:
    """Everything that determines the trials of a search, except their number.

    Parameters
    ----------
    algorithm, space
        The start recipe, and the parameters to vary.
    datasets, users
        Each data set with each user is a cell.
    objective
        The quantity to maximise.
    folds
        Number of folds of each data set, from the first; None means all.
    seeds
        Runs per fold, data set and user.
    impressions, length, metric
        As in `RunSpec`.
    sampler, seed
        Name of the method that chooses values, and its random seed.
    batch
        Number of trials whose values are chosen, and whose runs are made, together.
    prune
        Whether trials below the median after the first third of the folds skip the other folds.
    """

    algorithm: Algorithm
    space: tuple[Parameter, ...]
    datasets: tuple[Dataset, ...]
    users: tuple[User, ...]
    objective: Objective = Objective()
    folds: int | None = None
    seeds: int = 1
    impressions: int = 10_000
    length: int = 10
    metric: Metric = _NDCG
    sampler: str = "tpe"
    seed: int = 1
    batch: int = 20
    prune: bool = True

    def __post_init__(self) -> None:
        if not self.datasets or not self.users:
            raise InvalidValue("a search needs at least one data set and one user")
        if self.sampler not in SAMPLERS:
            raise UnknownName.among("sampler", self.sampler, SAMPLERS)
        if self.folds is not None:
            whole_number("folds", self.folds)
        whole_number("seeds", self.seeds)
        whole_number("batch", self.batch)
        whole_number("seed", self.seed, least=0)

    @property
    def rungs(self) -> int:
        """Number of stages of a trial: 2 if a trial can be pruned after the first third of the folds, otherwise 1."""
        return 2 if self.prune and any(self._folds(each, 1) < self._folds(each) for each in self.datasets) else 1

    def specs(self, recipe: Algorithm, rung: int | None = None) -> list[RunSpec]:
        """Return the runs of a recipe up to a rung, counted from 1; all runs by default."""
        stage = rung if rung is not None and rung < self.rungs else None
        how = (self.impressions, self.length, self.metric, "validation")
        return [
            RunSpec(recipe, dataset, user, fold, FIRST_SEED + seed, *how)  # type: ignore[arg-type]
            for dataset in self.datasets
            for user in self.users
            for fold in range(1, self._folds(dataset, stage) + 1)
            for seed in range(self.seeds)
        ]

    def _folds(self, dataset: Dataset, rung: int | None = None) -> int:
        """Return the number of folds of a trial; at the first rung a third of them."""
        folds = min(dataset.n_folds, self.folds or dataset.n_folds)
        return -(-folds // 3) if rung == 1 else folds

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {
            "algorithm": repr(self.algorithm),
            "parameters": {each.name: str(each) for each in self.space},
            "data sets": [spell(dataset) for dataset in self.datasets],
            "users": [spell(user) for user in self.users],
            "objective": str(self.objective),
            "folds": "all" if self.folds is None else self.folds,
            "runs per fold": self.seeds,
            "impressions": self.impressions,
            "length": self.length,
            "metric": repr(self.metric),
            "sampler": self.sampler,
            "seed": self.seed,
            "batch": self.batch,
            "pruning": self.prune,
        }


def has_begun(folder: Path) -> bool:
    """Return whether a folder has a search."""
    return (folder / _FILE).exists()


def check_same(settings: Settings, folder: Path) -> None:
    """Write the settings of a search to its folder; raise an error if the folder has a search with other settings."""
    path, now = folder / _FILE, settings.described()
    if not path.exists():
        write_bytes(path, (json.dumps(now, indent=2) + "\n").encode())
        return
    try:
        before: Mapping[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise DataFormatError(f"{path} is damaged ({error}); restore it, or choose another folder (--out)") from None
    for name in dict.fromkeys((*now, *before)):
        if before.get(name) != now.get(name):
            raise InvalidValue(
                f"{folder} has a search with other settings: {name} is {_shown(before.get(name))} there, not "
                f"{_shown(now.get(name))}; choose another folder (--out), or give the same settings to resume"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {text}" for name, text in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
