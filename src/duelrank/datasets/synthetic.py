"""Generated data sets: linear relevance, curves, changing tastes, contexts, unequal query frequencies, missing values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.randomness import stream
from duelrank.core.registry import Between, Collection, alias, register
from duelrank.core.types import Features, Labels, Stream
from duelrank.datasets.base import Dataset
from duelrank.datasets.split import SPLITS, Fold, Split, has_relevant
from duelrank.kernels.datasets import scale_queries
from duelrank.kernels.elementary import exps, log1ps, logs
from duelrank.kernels.random import integers, normals, permutation
from duelrank.kernels.ranking import scores as products

Values = NDArray[np.float64]

_RELEVANT = 0.35  # share of relevant training documents, as in the LETOR sets
_FEATURES_PER_FACTOR = 6
_LEANING = 0.7  # mean of the hidden weights, in their standard deviations
_CORRELATION = 0.4  # share of the variance of a feature that comes from the latent factors
_BETWEEN_QUERIES = 0.5  # standard deviation of the means of queries; within queries it is 1
_WIDTH = 0.6  # width of a bump, in standard deviations of the feature on its own scale
_CACHED = 32  # folds of each class to keep in memory: all those of the families, 670 MB
_STEPS = 20  # number of gradings of a taste that changes slowly
_FINE = 1 << 30  # shares are multiples of its inverse
_REFERENCE = 1024  # number of documents that determine the spread of each curve


@dataclass(frozen=True, repr=False)
class Generated(Dataset):
    """A data set that is drawn at random from the parameters of its recipe; equal parameters give equal data."""

    added_fields: ClassVar[Mapping[str, Any]] = {"relevant": _RELEVANT}

    n_queries: Annotated[int, Between(1, 1_000_000)] = 300
    n_documents: Annotated[int, Between(1, 100_000)] = 30
    n_features: Annotated[int, Between(1, 100_000)] = 46
    n_grades: Annotated[int, Between(2, 31)] = 3
    noise: Annotated[float, Between(0)] = 0.3

    @property
    def n_folds(self) -> int:
        """Five, as in most published sets."""
        return 5

    def fold(self, number: int = 1) -> Fold:
        """Generate one fold, or return it from the cache of this process."""
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= self.n_folds:
            raise InvalidValue(f"fold of a generated set must be from 1 to {self.n_folds}, got {number!r}")
        return self._generate(number)

    @property
    @abstractmethod
    def relevant(self) -> float:
        """Share of the training documents that are relevant."""

    @abstractmethod
    def _generate(self, number: int) -> Fold:
        """Generate one fold, whose number is valid."""

    @abstractmethod
    def _scored(self, number: int, taste: int) -> _Splits:
        """Draw the queries of one fold with their hidden scores: those of the set (0), or of another taste (1, 2, …)."""


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
    relevant
        Share of the training documents with a grade above 0; 0.4 times as many have a grade above 1, and so on.

    Examples
    --------
    >>> from duelrank import Synthetic
    >>> fold = Synthetic(n_queries=20).fold(1)
    >>> len(fold.train), fold.n_features, fold.n_grades
    (20, 46, 3)
    """

    correlation: Annotated[float, Between(0, 1)] = 0.7
    seed: Annotated[int, Between(0)] = 0
    relevant: Annotated[float, Between(0, 1)] = _RELEVANT

    def _generate(self, number: int) -> Fold:
        return _make(self, number)

    def _scored(self, number: int, taste: int) -> _Splits:
        world = _world(self, taste)

        def draw(name: str, n_queries: int) -> _Drawn:
            return _draw(self, world, n_queries, *_streams(self.seed, f"synthetic/{name}", number, taste))

        return _splits(draw, self.n_queries)


alias("synthetic", Synthetic())


@dataclass(frozen=True)
class _World:
    """The random parameters that all folds of one set share."""

    loadings: Values  # (n_factors, n_features)
    weights: Values  # (n_features,)


@lru_cache(maxsize=_CACHED)
def _make(recipe: Synthetic, number: int) -> Fold:
    return _graded(recipe._scored(number, taste=0), recipe.n_grades, recipe.relevant)


def _world(recipe: Synthetic, taste: int = 0) -> _World:
    draws, further = _streams(recipe.seed, "synthetic/world", 0, taste)
    loadings = _draw_loadings(recipe.n_features, draws)
    return _World(loadings, (0.0 if taste else _LEANING) + normals(further, 1, recipe.n_features)[0])


def _draw(recipe: Synthetic, world: _World, n_queries: int, draws: Stream, further: Stream) -> _Drawn:
    offsets = _draw_offsets(n_queries, recipe.n_documents, draws)
    skewed = exps(0.5 * _draw_latent(world.loadings, recipe.correlation, int(offsets[-1]), draws))
    features = _scaled_in_queries(skewed, offsets)
    scores = products(world.weights[None, :], features)[0]
    return _Drawn(features, _add_noise(scores, offsets, recipe.noise, further), offsets)


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
    relevant
        As in `Synthetic`.

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

    n_features: Annotated[int, Between(1, 100_000)] = 24
    scale: Literal["query", "none"] = "query"
    seed: Annotated[int, Between(0)] = 0
    relevant: Annotated[float, Between(0, 1)] = _RELEVANT

    def _generate(self, number: int) -> Fold:
        return _make_bumpy(self, number)

    def _scored(self, number: int, taste: int) -> _Splits:
        world = _bumpy_world(self, taste)

        def draw(name: str, n_queries: int) -> _Drawn:
            return _draw_bumpy(self, world, n_queries, *_streams(self.seed, f"bumpy/{name}", number, taste))

        return _splits(draw, self.n_queries)


alias("bumpy", Bumpy())


class _Kind(NamedTuple):
    """A kind of feature."""

    raw: Callable[[Values], Values]  # from standard normal numbers to values of the feature
    place: Callable[[Values], Values]  # from values back to roughly standard normal numbers
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
class _BumpyWorld:
    """The random parameters that all folds of one set share."""

    loadings: Values  # (n_factors, n_features)
    heights: Values  # (n_features,) standard deviation of each feature's curve
    centres: Values  # (n_features,) centres of the bumps


@lru_cache(maxsize=_CACHED)
def _make_bumpy(recipe: Bumpy, number: int) -> Fold:
    return _graded(recipe._scored(number, taste=0), recipe.n_grades, recipe.relevant)


def _bumpy_world(recipe: Bumpy, taste: int) -> _BumpyWorld:
    draws, further = _streams(recipe.seed, "bumpy/world", 0, taste)
    loadings = _draw_loadings(recipe.n_features, draws)
    heights, centres = normals(further, 2, recipe.n_features)
    sizes, centres = 0.5 + 0.5 * np.abs(heights), (0.4 * centres).clip(-0.8, 0.8)
    sizes = np.where(heights < 0.0, -sizes, sizes) if taste else sizes  # otherwise most curves rise in every taste
    reference = normals(further, _REFERENCE, recipe.n_features)
    spreads = np.array([_curve(n, _raw(n, z), centres[n]).std() for n, z in enumerate(reference.T)])
    return _BumpyWorld(loadings, sizes / spreads, centres)


def _draw_bumpy(recipe: Bumpy, world: _BumpyWorld, n_queries: int, draws: Stream, further: Stream) -> _Drawn:
    offsets = _draw_offsets(n_queries, recipe.n_documents, draws)
    means = _BETWEEN_QUERIES * normals(draws, n_queries, recipe.n_features)
    query_of = np.repeat(np.arange(n_queries), np.diff(offsets))
    latent = _draw_latent(world.loadings, _CORRELATION, len(query_of), draws) + means[query_of]
    features = np.ascontiguousarray(np.stack([_raw(n, z) for n, z in enumerate(latent.T)], axis=1))
    features[query_of % 2 == 1, _NOW_AND_THEN :: len(_KINDS)] = 0.0
    scores = _add_noise(_scores(features, world), offsets, recipe.noise, further)
    return _Drawn(_scaled_in_queries(features, offsets) if recipe.scale == "query" else features, scores, offsets)


def _scores(features: Features, world: _BumpyWorld) -> Values:
    """Return the sum of the curves."""
    scores = np.zeros(len(features))
    for n, values in enumerate(features.T):
        scores += world.heights[n] * _curve(n, values, world.centres[n])
    return scores


def _raw(feature: int, z: Values) -> Values:
    return _KINDS[feature % len(_KINDS)].raw(z)


def _curve(feature: int, values: Values, centre: float) -> Values:
    """Return the contribution of a feature's values to the score, for a curve of height 1."""
    kind = _KINDS[feature % len(_KINDS)]
    place = kind.place(values)
    if kind.curve == "bump":
        return exps(-0.5 * np.square((place - centre) / _WIDTH))
    return place if kind.curve == "rise" else 1.0 - 2.0 / (1.0 + exps(2.0 * place))


@register
@dataclass(frozen=True, repr=False)
class Drifting(Dataset):
    """The documents of a generated data set, for users who change their taste during a run: documents get other grades.

    The hidden score of a document turns from u to cos(turn) · u + sin(turn) · v, at once or in small steps. u and v are the scores
    of two tastes: they are not correlated, and have the same spread and the same share of noise. In contrast to the base, hidden
    weights (of `Bumpy`, heights of curves) have mean 0, so that a taste and its opposite are about as difficult to learn. The share
    of each grade stays the same. A run evaluates its lists, and its weights, by the grades of the moment.

    Parameters
    ----------
    base
        The data set with the documents.
    start
        The number of impressions before the change begins.
    over
        The number of impressions over which the taste turns, in 20 equal steps; 0: all at once.
    turn
        The angle in degrees. 180: the opposite of the former taste; 90: nothing in common with it.

    Examples
    --------
    After 100 lists, users want the opposite:

    >>> from duelrank.datasets import Drifting, Synthetic
    >>> fold = Drifting(Synthetic(n_queries=50), start=100).fold(1)
    >>> ((start, later),) = fold.later
    >>> start, later.train.labels[fold.train.labels == 2].max()
    (100, np.int8(0))
    """

    base: Generated = Synthetic()
    start: Annotated[int, Between(0)] = 5_000
    over: Annotated[int, Between(0)] = 0
    turn: Annotated[float, Between(0.0, 180.0)] = 180.0

    @property
    def n_folds(self) -> int:
        """Number of folds of the base."""
        return self.base.n_folds

    def fold(self, number: int = 1) -> Fold:
        """Generate one fold with its first grades, and the folds that replace it later."""
        self.base.fold(number)  # raises an error if there is no such fold
        return _make_drifting(self, number)


# A set on which all tastes from one to its opposite are about equally difficult: other seeds have easier ones on the way.
_EVEN = Synthetic(correlation=0.4, seed=1)
alias("sudden-drift", Drifting(_EVEN))
alias("slow-drift", Drifting(_EVEN, start=2_000, over=6_000))


@lru_cache(maxsize=8)
def _make_drifting(recipe: Drifting, number: int) -> Fold:
    n_steps, base = _STEPS if recipe.over else 1, recipe.base
    one, two = _uncorrelated(base._scored(number, taste=1), base._scored(number, taste=2))
    folds = []
    for step in range(n_steps + 1):
        angle = math.radians(recipe.turn) * step / n_steps
        # Rounded, because the last bits depend on the C library.
        along, aside = round(math.cos(angle), 12), round(math.sin(angle), 12)
        turned = {n: each._replace(scores=along * each.scores + aside * two[n].scores) for n, each in one.items()}
        folds.append(_graded(turned, base.n_grades, base.relevant))
    starts = [recipe.start + recipe.over * step // n_steps for step in range(1, n_steps + 1)]
    return replace(folds[0], later=tuple(zip(starts, folds[1:], strict=True)))


def _uncorrelated(one: _Splits, two: _Splits) -> tuple[_Splits, _Splits]:
    """Return both with scores of mean 0 and variance 1 that are not correlated, measured in training."""
    one, two = _standardised(one), _standardised(two)
    train = one["train"].scores
    share = float(products(train[None, :], two["train"].scores[None, :])[0, 0]) / len(train)
    apart = {name: each._replace(scores=each.scores - share * one[name].scores) for name, each in two.items()}
    return one, _standardised(apart)


def _standardised(splits: _Splits) -> _Splits:
    train = splits["train"].scores
    mean, spread = train.mean(), train.std() or 1.0
    return {name: drawn._replace(scores=(drawn.scores - mean) / spread) for name, drawn in splits.items()}


@register
@dataclass(frozen=True, repr=False)
class InContext(Dataset):
    """The documents of a generated data set, for users who want something else in a context, such as on a phone.

    Each query is in the context, or not, at random. Grades are those of two tastes, as in `Drifting`, which are not correlated: one
    in the context, and one outside.

    Parameters
    ----------
    base
        The data set with the documents.
    share
        Probability of a query to be in the context.
    products
        Whether each feature is there a second time, multiplied with the context (1 or 0), as in `Interactions`; without that,
        nothing says which queries are in the context.

    Examples
    --------
    >>> from duelrank import simulate
    >>> found = []
    >>> for products in (True, False):
    ...     base = "synthetic(n_queries=50, n_features=5)"
    ...     record = simulate("mgd-dsp", f"InContext({base}, products={products})", "perfect", impressions=1_000)
    ...     found.append(record.offline[-1])
    >>> bool(found[0] > found[1] + 0.05)
    True
    """

    base: Generated = Synthetic()
    share: Annotated[float, Between(0.0, 1.0)] = 0.5
    products: bool = True

    @property
    def n_folds(self) -> int:
        """Number of folds of the base."""
        return self.base.n_folds

    def fold(self, number: int = 1) -> Fold:
        """Generate one fold."""
        self.base.fold(number)  # raises an error if there is no such fold
        return _make_in_context(self, number)


@lru_cache(maxsize=8)
def _make_in_context(recipe: InContext, number: int) -> Fold:
    base, found = recipe.base, dict[str, _Drawn]()
    outside, inside = _uncorrelated(base._scored(number, taste=1), base._scored(number, taste=2))
    for name, drawn in outside.items():
        sizes = np.diff(drawn.offsets)
        chosen = integers(stream(0, f"context {name}", number), _FINE, len(sizes)) < recipe.share * _FINE
        context = np.repeat(chosen, sizes)
        products = [drawn.features * context[:, None]] if recipe.products else []
        scores = np.where(context, inside[name].scores, drawn.scores)
        found[name] = _Drawn(np.hstack([drawn.features, *products]), scores, drawn.offsets)
    return _graded(found, base.n_grades, base.relevant)


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


@register
@dataclass(frozen=True, repr=False)
class Incomplete(Dataset):
    """A data set of which a share of the values is missing, in all splits; for recipes that begin with ``missing >>``.

    Which values are missing is random, but the same in every run, whatever the run's seed. The grades do not depend on it.

    Parameters
    ----------
    base
        The data set with the queries.
    share
        Probability of each value to be missing.
    seed
        Random seed of the choice.

    Examples
    --------
    >>> from duelrank import simulate
    >>> shop = "Incomplete(synthetic(n_queries=30), share=0.5)"
    >>> bool(simulate("missing >> query-scaled >> mgd-dsp", shop, "perfect", impressions=50).offline[-1] > 0.2)
    True
    """

    base: Dataset
    share: Annotated[float, Between(0.0, 1.0)] = 0.3
    seed: Annotated[int, Between(0)] = 0

    @property
    def n_folds(self) -> int:
        """Number of folds of the base."""
        return self.base.n_folds

    def fold(self, number: int = 1) -> Fold:
        """Open one fold of the base, and hide values."""
        return self._hidden(self.base.fold(number), number)

    def _hidden(self, fold: Fold, number: int) -> Fold:
        train, validation, test = (
            self._without(getattr(fold, name), stream(self.seed, f"missing {name}", number)) for name in SPLITS
        )
        later = tuple((t, self._hidden(each, number)) for t, each in fold.later)
        return replace(fold, train=train, validation=validation, test=test, later=later)

    def _without(self, split: Split, draws: Stream) -> Split:
        drawn = integers(draws, _FINE, split.features.size).reshape(split.features.shape)
        return Split(
            np.where(drawn < self.share * _FINE, np.nan, split.features), split.labels, split.offsets, split.ids, True
        )


#: Sets of several kinds, to choose a recipe that is good on all of them. Their seed is not the default, so that `synthetic` and
#: `bumpy` have another hidden truth and stay unseen. In lockstep, sets of similar size share a program, with curves only if they
#: have the same number of features: two sets therefore have 40, as MQ2008 without its constant ones.
_FAMILIES: dict[str, Dataset] = {
    "few-features": Synthetic(300, n_documents=10, n_features=20, n_grades=2, correlation=0.4, seed=1),
    "uncorrelated": Synthetic(300, n_documents=60, n_features=40, correlation=0.0, seed=1, relevant=0.2),
    "many-curves": Bumpy(300, n_documents=60, n_features=40, seed=1, relevant=0.2),
    "few-relevant": Synthetic(150, n_documents=200, n_features=64, n_grades=2, seed=1, relevant=0.02),
    "web-pages": Synthetic(150, n_documents=100, n_features=136, n_grades=5, correlation=0.9, seed=1, relevant=0.5),
    "many-features": Synthetic(300, n_documents=20, n_features=700, n_grades=5, seed=1, relevant=0.7),
}
for _name, _family in _FAMILIES.items():
    alias(_name, _family)
alias("families", Collection(("mq2007", "mq2008", *_FAMILIES)))


class _Drawn(NamedTuple):
    """Queries before grading: features, noisy hidden scores, and the offsets of the queries."""

    features: Features
    scores: Values
    offsets: NDArray[np.int64]


_Splits: TypeAlias = Mapping[str, _Drawn]


def _streams(seed: int, name: str, number: int, taste: int) -> tuple[Stream, Stream]:
    """Return the random numbers of documents and of their scores: the same stream, but each taste has one of its own."""
    draws = stream(seed, name, number)
    return draws, stream(seed, f"{name}/taste {taste}", number) if taste else draws


def _splits(draw: Callable[[str, int], _Drawn], n_queries: int) -> _Splits:
    """Return the queries of each split that ``draw(split, n_queries)`` makes."""
    sizes = {"train": n_queries, "validation": max(1, n_queries // 4), "test": max(1, n_queries // 2)}
    return {name: draw(name, size) for name, size in sizes.items()}


def _graded(drawn: _Splits, n_grades: int, relevant: float) -> Fold:
    """Return a fold of graded queries; the training scores determine the grades of all."""
    thresholds = _thresholds(drawn["train"].scores, n_grades, relevant)
    splits = {
        name: _split(features, np.searchsorted(thresholds, scores, side="right").astype(np.int8), offsets, name)
        for name, (features, scores, offsets) in drawn.items()
    }
    return Fold(splits["train"], splits["validation"], splits["test"], n_grades)


def _draw_offsets(n_queries: int, n_documents: int, draws: Stream) -> NDArray[np.int64]:
    """Draw the offsets of the queries; each has from half to one and a half times the mean number of documents."""
    fewest = (n_documents + 1) // 2
    sizes = fewest + integers(draws, 2 * (n_documents - fewest) + 1, n_queries)
    return np.concatenate([[0], np.cumsum(sizes)])


def _draw_loadings(n_features: int, draws: Stream) -> Values:
    """Draw the loading of each latent factor in each feature, (n_factors, n_features), with columns of length 1."""
    loadings: Values = normals(draws, max(2, n_features // _FEATURES_PER_FACTOR), n_features)
    return np.asarray(loadings / np.sqrt(np.square(loadings).sum(axis=0)))


def _draw_latent(loadings: Values, correlation: float, n_rows: int, draws: Stream) -> Values:
    """Draw (n_rows, n_features) standard normal numbers that share latent factors."""
    # Not BLAS, whose products may differ in the last bit with the processor and the number of threads.
    shared = products(np.ascontiguousarray(loadings.T), normals(draws, n_rows, len(loadings))).T
    own = normals(draws, n_rows, loadings.shape[1])
    latent: Values = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    return latent


def _add_noise(scores: Values, offsets: NDArray[np.int64], noise: float, draws: Stream) -> Values:
    """Return the scores with noise; some queries have more relevant documents than others."""
    spread, sizes = scores.std(), np.diff(offsets)
    richness = np.repeat(0.5 * normals(draws, len(sizes), 1)[:, 0], sizes)
    noisy: Values = scores + spread * (richness + noise * normals(draws, len(scores), 1)[:, 0])
    return noisy


def _scaled_in_queries(features: Features, offsets: NDArray[np.int64]) -> Features:
    """Return every feature scaled to [0, 1] within each query."""
    scaled = np.empty_like(features)
    scale_queries(features, offsets, np.arange(features.shape[1]), scaled)
    return scaled


def _thresholds(scores: Values, n_grades: int, relevant: float) -> Values:
    """Return the minimum score of each grade; every grade is rarer than the one below."""
    shares = relevant * np.cumprod(np.append(1.0, np.full(n_grades - 2, 0.4)))
    thresholds: Values = np.quantile(scores, 1.0 - shares)
    return thresholds


def _split(features: Features, labels: Labels, offsets: NDArray[np.int64], name: str) -> Split:
    sizes = np.diff(offsets)
    kept = np.ones(len(sizes), np.bool_)
    if name == "test":  # as in the published sets: queries without relevant documents are dropped
        relevant = has_relevant(labels, offsets)
        kept = relevant if relevant.any() else kept
    ids = np.array([f"{name}{i + 1}" for i in np.flatnonzero(kept)], np.bytes_)
    rows = np.repeat(kept, sizes)
    return Split.trusted(features[rows], labels[rows], np.concatenate([[0], np.cumsum(sizes[kept])]), ids)
