"""Queries as unevenly popular as in real traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from duelrank.datasets.base import Dataset
from duelrank.datasets.split import Fold
from duelrank.kernels.random import permutation
from duelrank.randomness import stream
from duelrank.registry import Between, register

__all__ = ["LongTail"]


@register
@dataclass(frozen=True, repr=False)
class LongTail(Dataset):
    """Another data set whose training queries are asked unequally often: a few all the time, most of them rarely.

    By Zipf's law, P(query of popularity rank r) ∝ 1/r^exponent. Which query is how popular is random, but the same in every
    run, whatever the run's seed. What is measured offline stays as it is: every test query counts once. A popularity that the
    base has of its own is replaced.

    Parameters
    ----------
    base
        Where the queries come from.
    exponent
        0: all equally often; 1: Zipf's law as it is found in query logs; more: a shorter head.
    seed
        Another seed, another order of popularity.

    Examples
    --------
    >>> from duelrank.datasets import Synthetic
    >>> fold = LongTail(Synthetic(n_queries=3)).fold(1)
    >>> sorted(fold.popularity.round(3).tolist())
    [0.333, 0.5, 1.0]
    """

    base: Dataset
    exponent: Annotated[float, Between(0.0, 100.0)] = 1.0
    seed: Annotated[int, Between(0)] = 0

    @property
    def n_folds(self) -> int:
        """As many as the base has."""
        return self.base.n_folds

    def fold(self, number: int = 1) -> Fold:
        """Open one fold of the base, and say how popular its training queries are."""
        fold = self.base.fold(number)
        ranks = 1.0 + permutation(stream(self.seed, "long-tail", number), len(fold.train))
        return replace(fold, popularity=np.power(ranks, -self.exponent))
