"""Algorithms with a scorer that is not linear, such as a neural network; and PDGD for it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import Algorithm
from duelrank.core.memory import replaced
from duelrank.core.registry import alias, register
from duelrank.core.types import (
    NO_BOOSTS,
    Features,
    Feedback,
    Gains,
    Gradient,
    Impression,
    Memory,
    Query,
    Ranking,
    State,
    Stream,
    Weights,
    frozen,
)
from duelrank.kernels.pdgd import draw, pair_gradient
from duelrank.kernels.ranking import rankings
from duelrank.scoring import MLP, Scorer
from duelrank.updates import Step, Update

_ONE = frozen(np.ones(1))
_NOTHING = np.empty((0, 1))


@dataclass(frozen=True, repr=False)
class Scored(Algorithm):
    """An algorithm that scores documents with a `Scorer`; a subclass adds `explore`, `gradient` and `update`."""

    linear: ClassVar[bool] = False

    scorer: Scorer = MLP()

    def start(self, n_features: int, stream: Stream) -> State:
        """Return the first weights of the scorer."""
        return State(frozen(self.scorer.start(n_features, stream)))

    def n_features(self, state: State) -> int:
        """Return the number of features that needs this number of weights."""
        n_weights = len(state.weights)
        return bisect_left(range(n_weights + 1), n_weights, lo=1, key=self.scorer.n_weights)

    def n_weights(self, n_features: int, memory: Memory) -> int:
        """Return the number of weights of the scorer."""
        return self.scorer.n_weights(n_features)

    def scores(self, state: State, features: Features, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of all documents, query after query."""
        bounds = pairwise(offsets.tolist())
        found = [self.scorer.scores(state.weights, features[start:stop]) for start, stop in bounds if start < stop]
        return np.concatenate(found) if found else np.empty(0)

    def best(self, state: State, query: Query, stream: Stream) -> Ranking:
        """Rank all documents by their scores, without exploration."""
        self.check_features(state, query)
        ranking: Ranking = rankings(_ONE, _NOTHING, 0.0, _column(self._scores(state, query)), NO_BOOSTS, stream)[0]
        return ranking

    def _scores(self, state: State, query: Query) -> NDArray[np.float64]:
        """Return the scores of a query, with its boosts."""
        return query.boosted(self.scorer.scores(state.weights, query.features))


@register
@dataclass(frozen=True, repr=False)
class ScoredPDGD(Scored):
    """PDGD with any differentiable scorer, such as a neural network.

    As in `PDGD`, lists are drawn from the Plackett-Luce model of the scores f, and each preference between a clicked document i and
    an unclicked, examined one j adds ρ ∇P(i ≻ j), with P(i ≻ j) = e^f(i) / (e^f(i) + e^f(j)).

    Parameters
    ----------
    scorer
        The function from features to scores.
    step
        Updates the weights.

    References
    ----------
    Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018).

    Examples
    --------
    Users want a medium price, which no linear ranker can prefer to both a low and a high one:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner, query = Learner("mlp-pdgd", feature_names=["price"]), Query("shoes", [[0.1], [0.5], [0.9]])
    >>> for _ in range(500):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 1))
    >>> int(learner.best(query)[0])
    1
    """

    step: Update = Step(learning_rate=0.1)

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Draw a list from the Plackett-Luce model."""
        ranking, scored = draw(_ONE, _column(self._scores(state, query)), NO_BOOSTS, length, stream)
        return Impression(query, ranking, {"scores": scored})

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Return the impression with the current scores, as if the list had been drawn from them."""
        return Impression(query, ranking, {"scores": self._scores(state, query)})

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted sum over all preferences."""
        scored, query = impression.trace["scores"], impression.query
        if not feedback.clicks.any():
            return np.zeros(len(state.weights)), state.memory
        slopes = np.zeros(query.n_documents)
        slopes[impression.ranking] = _pair_slopes(
            self._scores(state, query), scored, impression.ranking, feedback.gains
        )
        return self.scorer.gradient(state.weights, query.features, slopes), state.memory

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


alias("mlp-pdgd", ScoredPDGD())


def _column(scores: NDArray[np.float64]) -> Features:
    """Return scores as the only feature of the documents; with weight 1, kernels for linear rankers rank by these scores."""
    return frozen(scores[:, None])


def _pair_slopes(now: NDArray[np.float64], scored: NDArray[np.float64], shown: Ranking, gains: Gains) -> Gradient:
    """Return the derivative of PDGD's objective with respect to the score of each shown document.

    It is the gradient of a linear ranker if each shown document has a feature of its own, with its score as the weight.
    """
    shown_first = np.concatenate([scored[shown], np.delete(scored, shown)])
    one_each = frozen(np.eye(len(shown)))
    order = np.arange(len(shown))
    slopes: Gradient = pair_gradient(frozen(now[shown]), one_each, NO_BOOSTS, shown_first, order, gains)
    return slopes
