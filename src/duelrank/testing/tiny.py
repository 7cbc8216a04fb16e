"""Provides a tiny data set and short runs on it, for quick checks of an algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.core.randomness import stream
from duelrank.core.registry import Between
from duelrank.datasets import Dataset, Fold, Split
from duelrank.kernels.random import derive, normals
from duelrank.learner import Learner
from duelrank.users import Cascade

__all__ = ["Tiny", "play", "tiny_split"]

#: A user who clicks relevant documents, sometimes irrelevant ones, and rarely stops.
CLICKER = Cascade(click_probability=(0.1, 0.5, 0.9), stop_probability=(0.05, 0.1, 0.2))


@lru_cache(maxsize=32)
def tiny_split(n_queries: int = 12, n_documents: int = 8, n_features: int = 20, seed: int = 0) -> Split:
    """Make queries whose grades, 0 to 2, follow hidden weights 1, −1, 1, … without noise.

    Examples
    --------
    >>> from duelrank.testing import tiny_split
    >>> split = tiny_split()
    >>> split.features.shape, len(split.offsets) - 1
    ((96, 20), 12)
    """
    fresh = stream(seed, "tiny")
    n = n_queries * n_documents
    features = normals(fresh, n, n_features)
    features = (features - features.min()) / (features.max() - features.min())
    scores = features @ np.resize([1.0, -1.0], n_features)
    labels = np.digitize(scores, np.quantile(scores, (0.6, 0.85))).astype(np.int8)
    ids = np.array([f"q{i}".encode() for i in range(n_queries)])
    return Split(features, labels, np.arange(0, n + 1, n_documents), ids)


@dataclass(frozen=True, repr=False)
class Tiny(Dataset):
    """The tiny queries as a data set, with different queries for training and test, and one fold per seed.

    Parameters
    ----------
    n_documents, n_features
        Of each query.

    Examples
    --------
    >>> from duelrank.testing import Tiny
    >>> Tiny(n_documents=4).fold(1).train.features.shape[1]
    20
    """

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


def play(algorithm: Algorithm, n_impressions: int, seed: int = 0, learner: Learner | None = None) -> Learner:
    """Run a learner, by default a new one, on the tiny queries for some impressions.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank import parse
    >>> from duelrank.testing import play
    >>> learner = play(parse("mgd"), n_impressions=30)
    >>> float(np.linalg.norm(learner.weights).round(2))
    0.03
    """
    split = tiny_split()
    learner = learner or Learner(algorithm, split.n_features, seed, length=5)
    for _ in range(n_impressions):
        index = learner.ranked % len(split)
        impression = learner.rank(split.query(index))
        shown = split.judgements(index)[impression.ranking]
        learner.learn(impression, CLICKER.click(shown, derive(seed, learner.ranked)))
    return learner
