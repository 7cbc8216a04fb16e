"""Defines `RunSpec`: all parameters that determine the result of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.datasets import Dataset
from duelrank.kernels.elementary import exps, log
from duelrank.metrics import Metric, nDCG
from duelrank.randomness import stream_key
from duelrank.registry import Between, Part, canonical, register, spell
from duelrank.simulation.guarded import Guarded
from duelrank.simulation.logged import Logged
from duelrank.users import User

__all__ = ["RunSpec"]


@register
@dataclass(frozen=True, repr=False)
class RunSpec(Part):
    """All parameters of one run; equal specs give equal records, to the bit.

    Data set, fold, user and seed are the key of all random streams of a run. So runs that differ in one of them share no random
    numbers, and runs that differ only in their algorithm use the same queries and the same random numbers for the user.

    Parameters
    ----------
    algorithm, dataset, user
        The algorithm, the data set and the simulated user; objects or their texts, such as ``"mgd-dsp"``.
    fold
        Fold of the data set, counted from 1.
    seed
        Random seed; equal seeds in two folds, or on two data sets or with two users, give independent runs.
    impressions
        Number of lists shown.
    length
        Number of documents per list.
    metric
        Evaluates each shown list, and the current weights at every checkpoint.
    split
        Queries to evaluate the weights on: "test", or "validation" for choosing parameters.
    guard
        Compares the learned ranker with a baseline while it learns, and steps back when it is worse; None: no guard. The queries
        and the random numbers for the user are the same with and without one.
    log
        A log of production that the ranker learns from before its first list; None: it goes live as the recipe begins.

    Examples
    --------
    All that a run depends on is in its spec, so the last number is always the same:

    >>> from duelrank import RunSpec, simulate
    >>> spec = RunSpec("mgd-dsp", "synthetic(n_queries=20)", "navigational", seed=7, impressions=100)
    >>> spec.id
    'mgd-dsp/navigational/synthetic(n_queries=20)/fold1/seed7'
    >>> float(simulate(spec).online.mean().round(2))
    0.41
    """

    kind: ClassVar[str] = "run"
    added_fields: ClassVar[Mapping[str, Any]] = {"guard": None, "log": None}
    #: The version of the random streams: it rises when equal specs begin to give other records. Until 2, all folds shared theirs.
    streams: ClassVar[int] = 2

    algorithm: Algorithm
    dataset: Dataset
    user: User
    fold: Annotated[int, Between(1, 1_000_000)] = 1
    seed: Annotated[int, Between(0)] = 1
    impressions: Annotated[int, Between(1, 1_000_000_000)] = 10_000
    length: Annotated[int, Between(1, 1_000_000)] = 10
    metric: Metric = nDCG(cutoff=10)
    split: Literal["test", "validation"] = "test"
    guard: Guarded | None = None
    log: Logged | None = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            algorithm: Algorithm | str,
            dataset: Dataset | str,
            user: User | str,
            fold: int = 1,
            seed: int = 1,
            impressions: int = 10_000,
            length: int = 10,
            metric: Metric | str = ...,
            split: Literal["test", "validation"] = "test",
            guard: Guarded | str | None = None,
            log: Logged | str | None = None,
        ) -> None: ...

    @property
    def id(self) -> str:
        """The readable name of the run: algorithm/user/data set/fold/seed, with guard and log, if any, before the fold."""
        further = (spell(part) for part in (self.guard, self.log) if part is not None)
        parts = (spell(self.algorithm), spell(self.user), spell(self.dataset), *further)
        return "/".join((*parts, f"fold{self.fold}", f"seed{self.seed}"))

    @cached_property
    def digest(self) -> str:
        """Ten hexadecimal digits that depend on everything that could change the result, including defaults and `streams`."""
        return hashlib.blake2b(f"{self.streams}/{canonical(self)}".encode(), digest_size=5).hexdigest()

    @cached_property
    def stream_seed(self) -> int:
        """The seed of every random stream of the run; algorithm, guard and log are no part of it, so that they can be compared."""
        return stream_key(self.seed, f"{canonical(self.dataset)}/fold{self.fold}/{canonical(self.user)}")

    @property
    def checkpoints(self) -> NDArray[np.int64]:
        """The numbers of impressions after which the weights are evaluated: about eight per power of ten, and the last."""
        n = len(str(self.impressions**8))
        step = log(float(self.impressions)) / max(n - 1, 1)
        return np.unique([*exps(step * np.arange(n - 1, dtype=np.float64)).round().astype(np.int64), self.impressions])
