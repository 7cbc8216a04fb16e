"""A tiny data set for tests of simulations and experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.core.registry import Between
from duelrank.datasets import Dataset, Fold
from duelrank.testing import tiny_split


@dataclass(frozen=True, repr=False)
class Tiny(Dataset):
    """The tiny queries as a data set, with different queries for training and test, and any number of folds."""

    n_documents: Annotated[int, Between(1)] = 8
    n_features: Annotated[int, Between(1)] = 20

    @property
    def n_folds(self) -> int:
        """Three; `fold` accepts any number."""
        return 3

    def fold(self, number: int = 1) -> Fold:
        """Make one fold."""
        train, validation, test = (tiny_split(12, self.n_documents, self.n_features, 3 * number + i) for i in range(3))
        return Fold(train, validation, test, n_grades=3)
