"""Defines `Settings`: everything that decides the trials of a search, and the runs that each of them makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duelrank.algorithms import Algorithm
from duelrank.core.errors import DataFormatError, InvalidValue, UnknownName
from duelrank.core.registry import spell
from duelrank.core.validation import whole_number
from duelrank.datasets import Dataset
from duelrank.experiments.files import write_bytes
from duelrank.experiments.tuning.objective import Objective
from duelrank.experiments.tuning.space import Parameter
from duelrank.metrics import Metric, nDCG
from duelrank.simulation import RunSpec
from duelrank.users import User

__all__ = ["FIRST_SEED", "SAMPLERS", "Settings", "check_same", "has_begun"]

#: The first seed of the runs of a search: reports use seeds from 1 up, so no recipe is tuned on the runs that it is reported by.
FIRST_SEED = 101

#: Optuna's samplers by our names.
SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler"}

_FILE = "tune.json"
_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True)
class Settings:
    """Everything that decides the trials of a search, except how many there are.

    Parameters
    ----------
    algorithm, space
        The recipe that the search begins with, and the parameters that it varies.
    datasets, users
        The cells: each data set with each user.
    objective
        What to maximise.
    folds
        How many folds of each data set, from the first; None: all.
    seeds
        Runs per fold, data set and user.
    impressions, length, metric
        As in `RunSpec`.
    sampler, seed
        How values are chosen, and its random seed.
    batch
        Trials at a time: their runs are made together, and none of them knows how the others do.
    prune
        Whether trials that are below the median after the first third of the folds skip the other folds.
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
        """After how many stages of its runs a trial is judged: 2, or 1 if none is pruned or no data set has folds to leave out."""
        return 2 if self.prune and any(self._first(dataset) < self._folds(dataset) for dataset in self.datasets) else 1

    def specs(self, recipe: Algorithm, rung: int | None = None) -> list[RunSpec]:
        """Return the runs of a recipe up to a rung, which counts from 1; all by default."""
        all_folds = rung is None or rung >= self.rungs
        return [
            self._spec(recipe, dataset, user, fold, FIRST_SEED + seed)
            for dataset in self.datasets
            for user in self.users
            for fold in range(1, (self._folds(dataset) if all_folds else self._first(dataset)) + 1)
            for seed in range(self.seeds)
        ]

    def _spec(self, recipe: Algorithm, dataset: Dataset, user: User, fold: int, seed: int) -> RunSpec:
        return RunSpec(recipe, dataset, user, fold, seed, self.impressions, self.length, self.metric, "validation")

    def _folds(self, dataset: Dataset) -> int:
        return min(dataset.n_folds, self.folds or dataset.n_folds)

    def _first(self, dataset: Dataset) -> int:
        return -(-self._folds(dataset) // 3)

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
    """Write the settings of a search to its folder; raise an error if a search with others has begun there."""
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
                f"{_shown(now.get(name))}; choose another folder (--out), or give the same settings to go on"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {text}" for name, text in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
