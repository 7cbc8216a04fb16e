"""Production rankers in simulations: fixed baselines, and logs of their lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.randomness import stream, stream_key
from duelrank.core.registry import Between, Part, register, spell
from duelrank.core.types import Feedback, Query, Ranking, Stream, Weights, frozen
from duelrank.datasets import Dataset, Fold
from duelrank.kernels.random import derive, integers, uniform
from duelrank.kernels.ranking import linear_scores
from duelrank.learner import Learner
from duelrank.metrics import nDCG, offline_performance
from duelrank.users import Preset, User

_NDCG = nDCG(cutoff=10)


@dataclass(frozen=True, repr=False)
class Baseline(Part, ABC):
    """The production ranking of a simulation: a weight for each feature, which never changes."""

    kind: ClassVar[str] = "baseline"

    @abstractmethod
    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Return the weights for one fold of a data set."""


def order(weights: Weights, query: Query) -> Ranking:
    """Return all documents of a query by the weights, best first; ties in the order of the data, as in a real index."""
    return np.argsort(-linear_scores(weights, query.features), kind="stable")


@register
@dataclass(frozen=True, repr=False)
class Feature(Baseline):
    """Rank the documents by one feature.

    Parameters
    ----------
    number
        Number of the feature, from 0.
    rising
        Whether the least value comes first.

    Examples
    --------
    The nDCG of sorting by the third feature alone:

    >>> from duelrank import Synthetic, offline_performance
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.simulation import Feature
    >>> data = Synthetic(n_queries=40, n_features=20)
    >>> weights = Feature(2).weights(data, fold=1)
    >>> round(offline_performance(weights, data.fold(1).test, "nDCG@10", stream(1, "ties")), 2)
    0.59
    """

    number: Annotated[int, Between(0)] = 0
    rising: bool = False

    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Return 1 for the feature, or −1 if the least value comes first, and 0 for all others."""
        n_features = dataset.fold(fold).n_features
        if self.number >= n_features:
            raise InvalidValue(f"{spell(dataset)} has the features 0 to {n_features - 1}, the baseline is {self!r}")
        return _single(n_features, self.number, -1.0 if self.rising else 1.0)


@register
@dataclass(frozen=True, repr=False)
class BestFeature(Baseline):
    """Rank by the single feature, in the better direction, with the highest nDCG@10 on the validation queries of the fold.

    Examples
    --------
    The best ranking without learning, as a baseline: the number of the feature, and its nDCG on the test queries.

    >>> from duelrank import Synthetic, offline_performance
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.simulation import BestFeature
    >>> data = Synthetic(n_queries=40, n_features=20)
    >>> weights = BestFeature().weights(data, fold=1)
    >>> int(weights.argmax()), round(offline_performance(weights, data.fold(1).test, "nDCG@10", stream(1, "ties")), 2)
    (6, 0.84)
    """

    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Return 1 or −1 for that feature, and 0 for all others."""
        opened = dataset.fold(fold)
        split = opened.validation if len(opened.validation) else opened.train
        number = opened.n_features
        every = [_single(number, feature, sign) for feature in range(number) for sign in (1.0, -1.0)]
        return max(every, key=lambda weights: offline_performance(weights, split, _NDCG, stream(0, "baseline")))


@register
@dataclass(frozen=True, repr=False)
class FrozenWeights(Baseline):
    """Rank by the final weights of an earlier run on the same fold.

    Parameters
    ----------
    algorithm
        A recipe with one weight for each feature.
    user, impressions, seed
        The parameters of the earlier run.

    Examples
    --------
    Production is a ranker that has learned from 200 lists, and no longer learns:

    >>> from duelrank import Synthetic, offline_performance
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.simulation import FrozenWeights
    >>> data = Synthetic(n_queries=40, n_features=20)
    >>> weights = FrozenWeights("mgd", impressions=200).weights(data, fold=1)
    >>> round(offline_performance(weights, data.fold(1).test, "nDCG@10", stream(1, "ties")), 2)
    0.87
    """

    algorithm: Algorithm
    user: User = Preset()
    impressions: Annotated[int, Between(1, 1_000_000_000)] = 10_000
    seed: Annotated[int, Between(0)] = 0

    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Make the earlier run, and return its final weights."""
        from duelrank.simulation.run import RunSpec, simulate  # which import this module

        if self.algorithm.per_query:
            raise InvalidRecipe(f"{spell(self.algorithm)} has a model for each query and no weights to freeze")
        self.algorithm.check_linear("a baseline needs one weight for each feature")
        record = simulate(RunSpec(self.algorithm, dataset, self.user, fold, self.seed, self.impressions))
        if len(record.weights) != dataset.fold(fold).n_features:
            raise InvalidRecipe(f"a baseline needs one weight for each feature; {spell(self.algorithm)} has several")
        return frozen(record.weights)


def _single(n_features: int, number: int, weight: float) -> Weights:
    weights = np.zeros(n_features)
    weights[number] = weight
    return frozen(weights)


def drawn_queries(fold: Fold, size: int, draws: Stream) -> NDArray[np.int64]:
    """Draw training queries with replacement: uniformly, or in proportion to the popularity that the fold defines."""
    drawn: NDArray[np.int64]
    if fold.popularity is None:
        drawn = integers(draws, len(fold.train), size)
    else:
        sums = np.cumsum(fold.popularity)
        chances = np.fromiter((uniform(draws) for _ in range(size)), np.float64, size)
        # The last share is exactly 1 and every draw is below it; "right" never selects a query of popularity 0.
        drawn = np.searchsorted(sums / sums[-1], chances, side="right")
    return drawn


@register
@dataclass(frozen=True, repr=False)
class Logged(Part):
    """A log of production: lists with clicks of the same users on the same training queries, learned before the first live list.

    As in most logs, it is not known how far users looked.

    Parameters
    ----------
    production
        The ranking that was shown.
    lists
        Number of lists.

    Examples
    --------
    The first 100 users see better lists if the ranker has learned from a log of production before:

    >>> from duelrank import simulate
    >>> run = ("pdgd", "synthetic(n_queries=40, n_features=5)", "navigational")
    >>> for log in (None, "Logged(lists=500)"):
    ...     print(log, simulate(*run, impressions=100, log=log).online.mean().round(2))
    None 0.37
    Logged(lists=500) 0.74
    """

    kind: ClassVar[str] = "log"

    production: Baseline = BestFeature()
    lists: Annotated[int, Between(1, 1_000_000_000)] = 10_000

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(self, production: Baseline | str = ..., lists: int = 10_000) -> None: ...

    def shown(
        self, learner: Learner, fold: Fold, production: Weights, user: User
    ) -> Iterator[tuple[Query, Ranking, Feedback]]:
        """Yield the lists of the log; queries and clicks depend on the seed of the learner.

        Parameters
        ----------
        learner
            The learner that reads the log; its list length is used.
        fold, user
            The fold with the training queries, and the user who clicks.
        production
            The weights of production for the fold.
        """
        queries = drawn_queries(fold, self.lists, stream(learner.seed, "log queries"))
        user = user.at(0)  # the log is from before the first live list
        key, rankings = stream_key(learner.seed, "log user"), dict[int, Ranking]()
        for t, index in enumerate(queries.tolist()):
            query = fold.train.query(index)
            if index not in rankings:
                rankings[index] = order(production, query)[: learner.length]
            clicks = user.click(fold.train.judgements(index)[rankings[index]], derive(key, t)).clicks
            yield query, rankings[index], Feedback.trusted(clicks, None)
