"""Which runs an experiment has: every algorithm with every user, over folds and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duelrank.algorithms import Algorithm
from duelrank.datasets.base import Dataset
from duelrank.errors import InvalidValue
from duelrank.grammar import as_part
from duelrank.metrics import Metric, nDCG
from duelrank.simulation import RunSpec
from duelrank.users import User

__all__ = ["Grid"]

_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True)
class Grid:
    """An experiment as a value; `specs` spells it out.

    Parameters
    ----------
    algorithms, dataset, users
        Who learns, on what, from whom, each as itself or as its text; what is named twice runs once.
    runs
        How many of each pair: over the folds first, then over the seeds.
    impressions, length, metric, split
        As in `RunSpec`.
    """

    algorithms: tuple[Algorithm, ...]
    dataset: Dataset
    users: tuple[User, ...]
    runs: int = 3
    impressions: int = 10_000
    length: int = 10
    metric: Metric = _NDCG
    split: Literal["test", "validation"] = "test"

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            algorithms: Sequence[Algorithm | str],
            dataset: Dataset | str,
            users: Sequence[User | str],
            runs: int = 3,
            impressions: int = 10_000,
            length: int = 10,
            metric: Metric | str = ...,
            split: Literal["test", "validation"] = "test",
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithms", tuple(as_part(each, Algorithm) for each in self.algorithms))
        object.__setattr__(self, "users", tuple(as_part(each, User) for each in self.users))
        object.__setattr__(self, "dataset", as_part(self.dataset, Dataset))
        object.__setattr__(self, "metric", as_part(self.metric, Metric))
        if not self.algorithms or not self.users:
            raise InvalidValue("an experiment needs at least one algorithm and one user")
        if self.runs < 1:
            raise InvalidValue(f"runs must be a whole number from 1 up, got {self.runs}")

    def specs(self) -> list[RunSpec]:
        """Return the runs, user by user and algorithm by algorithm."""
        return [
            self._spec(algorithm, user, number)
            for user in dict.fromkeys(self.users)
            for algorithm in dict.fromkeys(self.algorithms)
            for number in range(self.runs)
        ]

    def _spec(self, algorithm: Algorithm, user: User, number: int) -> RunSpec:
        seed, fold = divmod(number, self.dataset.n_folds)
        return RunSpec(
            algorithm=algorithm,
            dataset=self.dataset,
            user=user,
            fold=fold + 1,
            seed=seed + 1,
            impressions=self.impressions,
            length=self.length,
            metric=self.metric,
            split=self.split,
        )
