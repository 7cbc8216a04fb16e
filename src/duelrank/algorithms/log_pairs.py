"""Pairwise learning from lists that another system ranked, such as those in a search log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duelrank.algorithms.base import Algorithm
from duelrank.core.memory import replaced
from duelrank.core.registry import alias, register
from duelrank.core.types import Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.kernels.pdgd import skip_gradient
from duelrank.kernels.ranking import rankings
from duelrank.projection import DependentClick, Examination
from duelrank.updates import Step, Update


@register
@dataclass(frozen=True, repr=False)
class LogPairs(Algorithm):
    """Pairwise logistic regression on lists of any system: a clicked document is better than one that was seen and not clicked.

    Each such pair of a list, in either order, adds P(seen) ∇ log P(i ≻ j), P(i ≻ j) = 1 / (1 + exp(−w·(x_i − x_j))). The gradient
    is their mean, so a list counts once, independently of its number of clicks. A pair of a click and a document skipped above it
    contradicts the order that was shown; with these pairs alone, as is often advised, a ranker learns the reverse of the order of
    the log. A pair of a click and a document below confirms the order, because few users look there: the examination model corrects
    this as far as the clicks allow. The remaining bias favours the order of the log, so a log with little information teaches that
    order.

    If actions have weights, the document with the larger weight is the better one, and a pair counts by the difference of the
    weights, relative to the largest weight of the list.

    It does not explore: its own lists are the best by the current weights.

    Parameters
    ----------
    examination
        The model of which unclicked documents were seen. By default users look at all documents down to a click, after which they
        may leave; the probabilities to leave, by position, are learned from the same log, and are low at first.
    step
        Updates the weights; the default step decreases with the square root of the number of lists.

    References
    ----------
    Joachims, "Optimizing search engines using clickthrough data" (KDD 2002), for pairs from logs.

    Examples
    --------
    The users of this log skip the first two documents and click on the third:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner, query = Learner("log-pairs", n_features=2), Query("shoes", [[0.9, 0.1], [0.5, 0.4], [0.2, 0.9]])
    >>> for _ in range(50):
    ...     learner.learn(learner.observe(query, ranking=[0, 1, 2]), Feedback([False, False, True]))
    >>> learner.best(query).tolist()
    [2, 1, 0]
    """

    examination: Examination = DependentClick(after_click=0.9, forgetting=1.0)
    step: Update = Step(learning_rate=2.0, slow_down=1.0)

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights."""
        weights = np.zeros(n_features)
        weights.flags.writeable = False
        return State(weights)

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Return the best list; equal documents are in a random order."""
        nothing = np.empty((0, state.weights.shape[0]))
        ranked = rankings(state.weights, nothing, 0.0, query.features, query.boosts, stream)
        return Impression(query, ranked[0, :length].copy())

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Return an impression with an empty trace: the gradient needs only the list and its clicks."""
        return Impression(query, ranking)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the mean over the pairs of the list, and the updated examination model."""
        query, users = impression.query, state.of("examination").memory
        seen = self.examination.weights(users, impression, feedback)
        memory = replaced(state.memory, "examination", self.examination.observe(users, impression, feedback))
        # Relative to the largest gain, so that a list counts once.
        gains = feedback.gains / max(float(feedback.gains.max(initial=0.0)), np.finfo(np.float64).tiny)
        pairs = float(((gains[:, np.newaxis] > gains) * seen).sum())
        if pairs == 0.0:
            return np.zeros(state.weights.shape[0]), memory
        gradient: Gradient = skip_gradient(state.weights, query.features, query.boosts, impression.ranking, gains, seen)
        return gradient * (4.0 / pairs), memory  # the kernel has the factor ¼

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


alias("log-pairs", LogPairs())
