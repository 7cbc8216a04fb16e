"""Generates a synthetic data set: linear relevance over correlated features, with noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.datasets.generated import (
    Drawn,
    Generated,
    add_noise,
    draw_latent,
    draw_loadings,
    draw_offsets,
    graded,
    scaled_in_queries,
)
from duelrank.datasets.split import Fold
from duelrank.kernels.elementary import exps
from duelrank.kernels.random import normals
from duelrank.kernels.ranking import scores as products
from duelrank.randomness import stream
from duelrank.registry import Between, alias, register
from duelrank.types import Stream

__all__ = ["Synthetic"]

_LEANING = 0.7  # mean of the hidden weights, in their standard deviations


@register
@dataclass(frozen=True, repr=False)
class Synthetic(Generated):
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
    >>> from duelrank import Synthetic
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

    def _generate(self, number: int) -> Fold:
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

    def draw(name: str, n_queries: int) -> Drawn:
        return _draw(recipe, world, n_queries, stream(recipe.seed, f"synthetic/{name}", number))

    return graded(draw, recipe.n_queries, recipe.n_grades)


def _world(recipe: Synthetic) -> _World:
    draws = stream(recipe.seed, "synthetic/world")
    loadings = draw_loadings(recipe.n_features, draws)
    return _World(loadings, _LEANING + normals(draws, 1, recipe.n_features)[0])


def _draw(recipe: Synthetic, world: _World, n_queries: int, draws: Stream) -> Drawn:
    offsets = draw_offsets(n_queries, recipe.n_documents, draws)
    skewed = exps(0.5 * draw_latent(world.loadings, recipe.correlation, int(offsets[-1]), draws))
    features = scaled_in_queries(skewed, offsets)
    scores = products(world.weights[None, :], features)[0]
    return Drawn(features, add_noise(scores, offsets, recipe.noise, draws), offsets)
