"""Defines `Grid`: runs of every algorithm with every user on one data set, over folds and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidValue
from duelrank.core.grammar import as_part
from duelrank.core.registry import Part
from duelrank.core.validation import whole_number
from duelrank.datasets.base import Dataset
from duelrank.metrics import Metric, nDCG
from duelrank.simulation import Guarded, Logged, RunSpec
from duelrank.users import User

__all__ = ["Grid"]

_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True)
class Grid:
    """The runs of an experiment; `specs` returns them. Every part may be given as text.

    Parameters
    ----------
    algorithms, dataset, users
        The algorithms, the data set and the simulated users; duplicates run once.
    runs
        Number of runs per algorithm and user: one per fold first, then further seeds.
    impressions, length, metric, split
        As in `RunSpec`.
    guards
        Each algorithm runs with each of them; None is no guard.
    logs
        Each algorithm runs after each of them; None is no log.

    Examples
    --------
    >>> from duelrank.experiments import Grid
    >>> grid = Grid(["mgd", "mgd-dsp"], "synthetic", "perfect", runs=2)
    >>> [spec.id for spec in grid.specs()][:2]
    ['mgd/perfect/synthetic/fold1/seed1', 'mgd/perfect/synthetic/fold2/seed1']
    """

    algorithms: tuple[Algorithm, ...]
    dataset: Dataset
    users: tuple[User, ...]
    runs: int = 3
    impressions: int = 10_000
    length: int = 10
    metric: Metric = _NDCG
    split: Literal["test", "validation"] = "test"
    guards: tuple[Guarded | None, ...] = (None,)
    logs: tuple[Logged | None, ...] = (None,)

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            algorithms: Sequence[Algorithm | str] | Algorithm | str,
            dataset: Dataset | str,
            users: Sequence[User | str] | User | str,
            runs: int = 3,
            impressions: int = 10_000,
            length: int = 10,
            metric: Metric | str = ...,
            split: Literal["test", "validation"] = "test",
            guards: Sequence[Guarded | None] = (None,),
            logs: Sequence[Logged | None] = (None,),
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "algorithms", _parts(self.algorithms, Algorithm))
        object.__setattr__(self, "users", _parts(self.users, User))
        object.__setattr__(self, "dataset", as_part(self.dataset, Dataset))
        object.__setattr__(self, "metric", as_part(self.metric, Metric))
        if not self.algorithms or not self.users:
            raise InvalidValue("an experiment needs at least one algorithm and one user")
        whole_number("runs", self.runs)

    def specs(self) -> list[RunSpec]:
        """Return the runs, user by user, algorithm by algorithm, guard by guard and log by log."""
        return [
            self._spec(algorithm, user, guard, log, number)
            for user in self.users
            for algorithm in self.algorithms
            for guard in self.guards
            for log in self.logs
            for number in range(self.runs)
        ]

    def _spec(
        self, algorithm: Algorithm, user: User, guard: Guarded | None, log: Logged | None, number: int
    ) -> RunSpec:
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
            guard=guard,
            log=log,
        )


def _parts(given: Any, kind: type[Part]) -> tuple[Part, ...]:
    """Return one or several parts, given as objects or texts, without duplicates."""
    several = (given,) if isinstance(given, (str, kind)) else given
    return tuple(dict.fromkeys(as_part(each, kind) for each in several))
