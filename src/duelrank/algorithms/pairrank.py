"""Online pairwise learning to rank by divide and conquer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.algorithms.base import Algorithm
from duelrank.kernels.pair_rank import independent_pairs, newton_step, shuffled_blocks
from duelrank.memory import replaced
from duelrank.projection import Examination, LastClick
from duelrank.registry import Between, alias, register
from duelrank.types import Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.updates import Step, Update

__all__ = ["PairRank"]

_FLATTEST = 4.0  # the curvature of the logistic loss along x is at most |x|²/4


@register
@dataclass(frozen=True, repr=False)
class PairRank(Algorithm):
    """Pairwise logistic regression that knows how sure it is: certain pairs are ordered, uncertain ones are left to chance.

    P(i ≻ j) = 1 / (1 + exp(−w·(x_i − x_j))). A pair is certain where P(i ≻ j) − α · |x_i − x_j| in the norm of M⁻¹ is over 1/2,
    with M = λI + Σ (x_i − x_j)(x_i − x_j)ᵀ over all pairs learned from. The ranking is divided into blocks, as many as there can be
    such that every pair across two blocks is certain; each block is shuffled, and they are shown one after the other.

    The pairs to learn from are independent, as the paper's analysis wants them: a clicked document and an unclicked one that was
    looked at, no document in two pairs; which ones are matched is drawn. Every impression may be learned from late: a pair says
    what it says whoever made the list, so nothing needs to travel in the trace.

    The paper fits w anew to all clicks ever seen in each round. Here memory is bounded, so w takes one step of Newton's
    method on the new pairs: w ← w + 4 M⁻¹ Σ (1 − P(i ≻ j)) (x_i − x_j). M/4 is the most that the loss can curve, so a step does not
    overshoot, and earlier pairs act through M, which is remembered as its inverse (features², updated as Sherman and Morrison do).

    Parameters
    ----------
    width
        The paper's α: how wide the confidence intervals are; 0 trusts the model in everything.
    regularisation
        The paper's λ: how much the first pairs have to say against.
    examination
        Which shown documents were looked at. By default everything down to the last click: an unclicked document below it that
        nobody has seen would confirm whatever order was shown.
    step
        How much of Newton's step to take.

    References
    ----------
    Jia, Wang, Guo and Wang, "PairRank: online pairwise learning to rank by divide-and-conquer" (WWW 2021).
    Böhning and Lindsay, "Monotonicity of quadratic-approximation algorithms" (1988), for the bound on the curvature.
    """

    width: Annotated[float, Between(0.0, 1e6)] = 0.1
    regularisation: Annotated[float, Between(1e-6, 1e6)] = 1.0
    examination: Examination = LastClick(beyond=0)
    step: Update = Step(learning_rate=1.0)

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, about which nothing is certain."""
        weights = np.zeros(n_features)
        weights.flags.writeable = False
        return State(weights, memory={"inverse": np.eye(n_features) / self.regularisation})

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Order what is certain, and shuffle what is not."""
        inverse = state.memory["inverse"]
        return Impression(query, shuffled_blocks(state.weights, inverse, query.features, self.width, length, stream))

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Take the list as it is: a pair says what it says whoever made the list."""
        return Impression(query, ranking)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return Newton's step on the pairs of this impression; they are added to M."""
        known = state.of("examination").memory
        seen = self.examination.weights(known, impression, feedback) > 0.0
        memory = replaced(state.memory, "examination", self.examination.observe(known, impression, feedback))
        pairs = independent_pairs(feedback.clicks, seen, stream)
        if not pairs.shape[0]:
            return np.zeros(state.weights.shape[0]), memory
        features, inverse = impression.query.features, state.memory["inverse"]
        gradient, inverse = newton_step(state.weights, inverse, features, impression.ranking, pairs)
        return _FLATTEST * gradient, {**memory, "inverse": inverse}

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


alias("pairrank", PairRank())
