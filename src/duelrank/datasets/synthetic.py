"""Generates a synthetic data set: linear relevance over correlated features, with noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets.base import Dataset
from duelrank.datasets.split import Fold, Split
from duelrank.errors import InvalidValue
from duelrank.kernels.preparation import scale_queries
from duelrank.kernels.random import integers, normals
from duelrank.kernels.ranking import scores as products
from duelrank.randomness import stream
from duelrank.registry import Between, alias, register
from duelrank.types import Features, Labels, Stream

__all__ = ["Synthetic"]

_IRRELEVANT = 0.65  # share of the training documents, as in the LETOR sets
_FEATURES_PER_FACTOR = 6
_LEANING = 0.7  # mean of the hidden weights, in their standard deviations


@register
@dataclass(frozen=True, repr=False)
class Synthetic(Dataset):
    """Synthetic queries whose relevance is a hidden linear function of their features plus noise.

    Features share latent factors, as the scores of similar retrieval functions do; they are skewed, and scaled to
    [0, 1] within each query. The hidden weights are the same in every fold; three in four are positive, as for
    retrieval functions. Each query has its own share of relevant documents. Equal parameters give equal data.

    Parameters
    ----------
    n_queries
        Number of training queries; there are a quarter as many for validation and half as many for test.
    n_documents
        Mean number of documents per query; a query has from half to one and a half times as many.
    n_features
        Number of features per document.
    n_grades
        Number of grades; labels are from 0 to n_grades − 1.
    noise
        Standard deviation of the noise that is added to the hidden score before grading, relative to that of the score.
    correlation
        Share of the variance of a feature that comes from the latent factors.
    seed
        Random seed of the data.

    Examples
    --------
    >>> fold = Synthetic(n_queries=20).fold(1)
    >>> len(fold.train), fold.n_features, fold.n_grades
    (20, 46, 3)
    """

    n_queries: Annotated[int, Between(1, 1_000_000)] = 300
    n_documents: Annotated[int, Between(1, 100_000)] = 30
    n_features: Annotated[int, Between(1, 100_000)] = 46
    n_grades: Annotated[int, Between(2, 31)] = 3
    noise: Annotated[float, Between(0)] = 0.3
    correlation: Annotated[float, Between(0, 1)] = 0.7
    seed: Annotated[int, Between(0)] = 0

    @property
    def n_folds(self) -> int:
        """Five, as in most published sets."""
        return 5

    def fold(self, number: int = 1) -> Fold:
        """Generate one fold, or return it from the cache of this process."""
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= self.n_folds:
            raise InvalidValue(f"fold of a synthetic set must be from 1 to {self.n_folds}, got {number!r}")
        return _make(self, number)


alias("synthetic", Synthetic())


@dataclass(frozen=True)
class _World:
    """The random parameters that all folds of one set share."""

    loadings: NDArray[np.float64]  # (n_factors, n_features)
    weights: NDArray[np.float64]  # (n_features,)


@lru_cache(maxsize=8)
def _make(recipe: Synthetic, number: int) -> Fold:
    world = _world(recipe)
    drawn = {
        name: _draw(recipe, world, size, stream(recipe.seed, f"synthetic/{name}", number))
        for name, size in (
            ("train", recipe.n_queries),
            ("validation", max(1, recipe.n_queries // 4)),
            ("test", max(1, recipe.n_queries // 2)),
        )
    }
    thresholds = _thresholds(drawn["train"][1], recipe.n_grades)
    splits = {
        name: _split(features, np.searchsorted(thresholds, scores, side="right").astype(np.int8), offsets, name)
        for name, (features, scores, offsets) in drawn.items()
    }
    return Fold(splits["train"], splits["validation"], splits["test"], recipe.n_grades)


def _world(recipe: Synthetic) -> _World:
    draws = stream(recipe.seed, "synthetic/world")
    loadings = normals(draws, max(2, recipe.n_features // _FEATURES_PER_FACTOR), recipe.n_features)
    return _World(loadings / np.linalg.norm(loadings, axis=0), _LEANING + normals(draws, 1, recipe.n_features)[0])


def _draw(recipe: Synthetic, world: _World, n_queries: int, draws: Stream) -> tuple[Features, Any, NDArray[np.int64]]:
    """Return the features, the noisy hidden scores and the offsets of some queries."""
    fewest = (recipe.n_documents + 1) // 2
    sizes = fewest + integers(draws, 2 * (recipe.n_documents - fewest) + 1, n_queries)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n_rows = int(offsets[-1])
    # Not BLAS, whose products may differ in the last bit with the number of threads.
    shared = products(np.ascontiguousarray(world.loadings.T), normals(draws, n_rows, len(world.loadings))).T
    own = normals(draws, n_rows, recipe.n_features)
    skewed = np.exp(0.5 * (np.sqrt(recipe.correlation) * shared + np.sqrt(1.0 - recipe.correlation) * own))
    features = np.empty_like(skewed)
    scale_queries(skewed, offsets, np.arange(recipe.n_features), features)
    scores = products(world.weights[None, :], features)[0]
    spread = scores.std()
    richness = np.repeat(0.5 * normals(draws, n_queries, 1)[:, 0], sizes)  # some queries have more relevant documents
    return features, scores + spread * (richness + recipe.noise * normals(draws, n_rows, 1)[:, 0]), offsets


def _thresholds(scores: NDArray[np.float64], n_grades: int) -> NDArray[np.float64]:
    """Return the minimum score of each grade; every grade is rarer than the one below."""
    shares = (1.0 - _IRRELEVANT) * 0.4 ** np.arange(n_grades - 1)
    thresholds: NDArray[np.float64] = np.quantile(scores, 1.0 - shares)
    return thresholds


def _split(features: Features, labels: Labels, offsets: NDArray[np.int64], name: str) -> Split:
    sizes = np.diff(offsets)
    kept = np.ones(len(sizes), np.bool_)
    if name == "test":  # as in the published sets: queries without relevant documents are dropped
        relevant = np.add.reduceat(labels > 0, offsets[:-1], dtype=np.int64) > 0
        kept = relevant if relevant.any() else kept
    ids = np.array([f"{name}{i + 1}" for i in np.flatnonzero(kept)], np.bytes_)
    rows = np.repeat(kept, sizes)
    return Split.trusted(features[rows], labels[rows], np.concatenate([[0], np.cumsum(sizes[kept])]), ids)
