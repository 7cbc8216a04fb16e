"""Grids: every algorithm with every user on one data set, over folds and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from duelrank.algorithms import Algorithm
from duelrank.datasets.base import Dataset
from duelrank.errors import InvalidValue
from duelrank.grammar import parse
from duelrank.metrics import Metric, nDCG
from duelrank.registry import Part
from duelrank.simulation import RunSpec
from duelrank.users import User

__all__ = ["Grid"]

P = TypeVar("P", bound=Part)
_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True)
class Grid:
    """The runs of an experiment as a value; `specs` spells them out. Every part may be given as text.

    Parameters
    ----------
    algorithms, dataset, users
        Who learns, on what, from whom; what is named twice runs once.
    runs
        How many of each pair: over the folds first, then over the seeds.
    impressions, length, metric, split
        As in `RunSpec`.

    Examples
    --------
    >>> grid = Grid(["mgd", "mgd-dsp"], "synthetic", "perfect", runs=2)
    >>> [spec.id for spec in grid.specs()][:2]
    ['mgd/perfect/synthetic/fold1/seed1', 'mgd/perfect/synthetic/fold2/seed1']
    """

    algorithms: Sequence[Algorithm | str] | Algorithm | str
    dataset: Dataset | str
    users: Sequence[User | str] | User | str
    runs: int = 3
    impressions: int = 10_000
    length: int = 10
    metric: Metric | str = _NDCG
    split: Literal["test", "validation"] = "test"

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithms", _parts(self.algorithms, Algorithm))
        object.__setattr__(self, "users", _parts(self.users, User))
        object.__setattr__(self, "dataset", _part(self.dataset, Dataset))
        object.__setattr__(self, "metric", _part(self.metric, Metric))
        if not self.algorithms or not self.users:
            raise InvalidValue("an experiment needs at least one algorithm and one user")
        if self.runs < 1:
            raise InvalidValue(f"runs must be a whole number from 1 up, got {self.runs}")

    def specs(self) -> list[RunSpec]:
        """Return the runs, user by user and algorithm by algorithm."""
        return [
            self._spec(algorithm, user, number)
            for user in cast(tuple[User, ...], self.users)
            for algorithm in cast(tuple[Algorithm, ...], self.algorithms)
            for number in range(self.runs)
        ]

    def _spec(self, algorithm: Algorithm, user: User, number: int) -> RunSpec:
        dataset, metric = cast(Dataset, self.dataset), cast(Metric, self.metric)
        seed, fold = divmod(number, dataset.n_folds)
        return RunSpec(
            algorithm=algorithm,
            dataset=dataset,
            user=user,
            fold=fold + 1,
            seed=seed + 1,
            impressions=self.impressions,
            length=self.length,
            metric=metric,
            split=self.split,
        )


def _parts(given: Sequence[P | str] | P | str, kind: type[P]) -> tuple[P, ...]:
    several = (given,) if isinstance(given, (str, kind)) else cast(Sequence[P | str], given)
    return tuple(dict.fromkeys(_part(each, kind) for each in several))


def _part(given: P | str, kind: type[P]) -> P:
    return parse(given, kind) if isinstance(given, str) else given
