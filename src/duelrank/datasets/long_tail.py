"""Makes the training queries of a data set unequally popular, as in real traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from duelrank.datasets.base import Dataset
from duelrank.datasets.split import Fold
from duelrank.kernels.elementary import exps, logs
from duelrank.kernels.random import permutation
from duelrank.randomness import stream
from duelrank.registry import Between, register

__all__ = ["LongTail"]


@register
@dataclass(frozen=True, repr=False)
class LongTail(Dataset):
    """A data set whose training queries have unequal frequencies: a few are frequent, most are rare.

    By Zipf's law, P(query of popularity rank r) ∝ 1/r^exponent. The popularity rank of each query is random, but the same in
    every run, whatever the run's seed. Offline evaluation does not change: every test query counts once. It replaces any
    popularity that the base defines.

    Parameters
    ----------
    base
        The data set with the queries.
    exponent
        0: equal frequencies; 1: Zipf's law as found in query logs; more: a shorter head.
    seed
        Random seed of the order of popularity.

    Examples
    --------
    >>> from duelrank.datasets import LongTail, Synthetic
    >>> fold = LongTail(Synthetic(n_queries=3)).fold(1)
    >>> sorted(fold.popularity.round(3).tolist())
    [0.333, 0.5, 1.0]
    """

    base: Dataset
    exponent: Annotated[float, Between(0.0, 100.0)] = 1.0
    seed: Annotated[int, Between(0)] = 0

    @property
    def n_folds(self) -> int:
        """Number of folds of the base."""
        return self.base.n_folds

    def fold(self, number: int = 1) -> Fold:
        """Open one fold of the base, and add the popularity of its training queries."""
        fold = self.base.fold(number)
        ranks = 1.0 + permutation(stream(self.seed, "long-tail", number), len(fold.train))
        return replace(fold, popularity=exps(-self.exponent * logs(ranks)))
