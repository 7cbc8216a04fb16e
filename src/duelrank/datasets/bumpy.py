"""Generates a synthetic data set: raw features with long tails, and relevance as a sum of curves over them, some with a bump."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

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
from duelrank.kernels.elementary import exps, log1ps, logs
from duelrank.kernels.random import normals
from duelrank.randomness import stream
from duelrank.registry import Between, alias, register
from duelrank.types import Features, Stream

__all__ = ["Bumpy"]

_CORRELATION = 0.4  # share of the variance of a feature that comes from the latent factors
_BETWEEN_QUERIES = 0.5  # standard deviation of the means of queries; within queries it is 1
_WIDTH = 0.6  # of a bump, in standard deviations of the feature on its own scale
_REFERENCE = 1024  # documents from which the spread of each curve is known

Values = NDArray[np.float64]


@register
@dataclass(frozen=True, repr=False)
class Bumpy(Generated):
    """Synthetic queries with raw features as in a shop, whose relevance is a sum of hidden curves, one per feature, plus noise.

    Eight kinds of features take turns: a price (log-normal; a middle price is best), a similarity in [0, 1] (linear), a number of
    sales (log-normal; each further one counts less), a number of links (Pareto, with the longest tail; the same), a category 0, 1
    or 2 (a bump), a number of reviews (two in three have none; the first ones count most), an age in whole days (a bump), and a
    similarity that is 0 for all documents of every other query. The curves are the same in every fold and every query; queries
    differ in the mean of each feature, as shoes and pens differ in price. A linear function of the features, scaled or not,
    cannot follow the curves; a sum of curves can.

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
    scale
        "query": scale every feature to [0, 1] within each query, 0 if it is constant there; "none": do not scale.
    seed
        Random seed of the data.

    Examples
    --------
    >>> from duelrank.datasets import Bumpy
    >>> fold = Bumpy(n_queries=20, scale="none").fold(1)
    >>> len(fold.train), fold.n_features, fold.n_grades
    (20, 24, 3)
    >>> price, similarity = fold.train.features[:, :2].T
    >>> [round(float(each), 2) for each in (price.max() / price.mean(), similarity.min(), similarity.max())]
    [19.66, 0.03, 0.97]
    """

    n_queries: Annotated[int, Between(1, 1_000_000)] = 300
    n_documents: Annotated[int, Between(1, 100_000)] = 30
    n_features: Annotated[int, Between(1, 100_000)] = 24
    n_grades: Annotated[int, Between(2, 31)] = 3
    noise: Annotated[float, Between(0)] = 0.3
    scale: Literal["query", "none"] = "query"
    seed: Annotated[int, Between(0)] = 0

    def _generate(self, number: int) -> Fold:
        return _make(self, number)


alias("bumpy", Bumpy())


class _Kind(NamedTuple):
    """A kind of feature."""

    raw: Callable[[Values], Values]  # the values of the feature, from standard normal numbers
    place: Callable[[Values], Values]  # back from a value to about a standard normal number
    curve: Literal["bump", "rise", "first ones"]


def _similarity(z: Values) -> Values:
    return 1.0 / (1.0 + exps(-z))


def _around_half(value: Values) -> Values:
    return 4.0 * (value - 0.5)


_KINDS = (
    _Kind(lambda z: np.rint(100.0 * exps(3.0 + z)) / 100.0, lambda price: logs(np.maximum(price, 0.01)) - 3.0, "bump"),
    _Kind(_similarity, _around_half, "rise"),
    _Kind(lambda z: np.floor(exps(2.0 + 1.5 * z)), lambda sales: (log1ps(sales) - 2.2) / 1.3, "rise"),
    _Kind(lambda z: exps(log1ps(exps(1.7 * z)) / 1.1), lambda links: logs(links) - 0.9, "rise"),
    _Kind(lambda z: np.rint(z.clip(-1.0, 1.0)) + 1.0, lambda category: category - 1.0, "bump"),
    _Kind(lambda z: np.floor(exps(1.5 * z) - 1.0).clip(0.0), lambda reviews: log1ps(reviews), "first ones"),
    _Kind(lambda z: np.floor(exps(4.0 + 1.2 * z)), lambda days: (log1ps(days) - 4.0) / 1.2, "bump"),
    _Kind(_similarity, _around_half, "rise"),
)
_NOW_AND_THEN = len(_KINDS) - 1  # the kind that is 0 for all documents of every other query


@dataclass(frozen=True)
class _World:
    """The random parameters that all folds of one set share."""

    loadings: NDArray[np.float64]  # (n_factors, n_features)
    heights: NDArray[np.float64]  # (n_features,) how much the score moves with each feature, in standard deviations
    centres: NDArray[np.float64]  # (n_features,) of the bumps


@lru_cache(maxsize=8)
def _make(recipe: Bumpy, number: int) -> Fold:
    world = _world(recipe)

    def draw(name: str, n_queries: int) -> Drawn:
        return _draw(recipe, world, n_queries, stream(recipe.seed, f"bumpy/{name}", number))

    return graded(draw, recipe.n_queries, recipe.n_grades)


def _world(recipe: Bumpy) -> _World:
    draws = stream(recipe.seed, "bumpy/world")
    loadings = draw_loadings(recipe.n_features, draws)
    heights, centres = normals(draws, 2, recipe.n_features)
    sizes, centres = 0.5 + 0.5 * np.abs(heights), (0.4 * centres).clip(-0.8, 0.8)
    reference = normals(draws, _REFERENCE, recipe.n_features)
    spreads = np.array([_curve(n, _raw(n, z), centres[n]).std() for n, z in enumerate(reference.T)])
    return _World(loadings, sizes / spreads, centres)


def _draw(recipe: Bumpy, world: _World, n_queries: int, draws: Stream) -> Drawn:
    offsets = draw_offsets(n_queries, recipe.n_documents, draws)
    means = _BETWEEN_QUERIES * normals(draws, n_queries, recipe.n_features)
    query_of = np.repeat(np.arange(n_queries), np.diff(offsets))
    latent = draw_latent(world.loadings, _CORRELATION, len(query_of), draws) + means[query_of]
    features = np.ascontiguousarray(np.stack([_raw(n, z) for n, z in enumerate(latent.T)], axis=1))
    features[query_of % 2 == 1, _NOW_AND_THEN :: len(_KINDS)] = 0.0
    scores = add_noise(_scores(features, world), offsets, recipe.noise, draws)
    return Drawn(scaled_in_queries(features, offsets) if recipe.scale == "query" else features, scores, offsets)


def _scores(features: Features, world: _World) -> Values:
    """Return the sum of the curves."""
    scores = np.zeros(len(features))
    for n, values in enumerate(features.T):
        scores += world.heights[n] * _curve(n, values, world.centres[n])
    return scores


def _raw(feature: int, z: Values) -> Values:
    return _KINDS[feature % len(_KINDS)].raw(z)


def _curve(feature: int, values: Values, centre: float) -> Values:
    """Return what the values of a feature add to the score, before the height of the curve."""
    kind = _KINDS[feature % len(_KINDS)]
    place = kind.place(values)
    if kind.curve == "bump":
        return exps(-0.5 * np.square((place - centre) / _WIDTH))
    return place if kind.curve == "rise" else 1.0 - 2.0 / (1.0 + exps(2.0 * place))
