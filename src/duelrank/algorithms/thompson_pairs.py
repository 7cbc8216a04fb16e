"""Thompson sampling on pairs: pairwise logistic regression with a belief about the weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.base import Algorithm
from duelrank.algorithms.represented import Represented
from duelrank.core.memory import replaced
from duelrank.core.registry import Between, alias, register
from duelrank.core.types import Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.kernels import thompson_pairs as kernel
from duelrank.kernels.elementary import power
from duelrank.kernels.projection import qr_basis
from duelrank.kernels.ranking import scores
from duelrank.projection import DependentClick, Examination
from duelrank.representation import BentLines, QueryScaled

Belief: TypeAlias = NDArray[np.float64]  # S, or its diagonal

#: The belief widens, and its standard deviations are computed, after every 64th list.
EVERY = 64
#: Number of deviations to choose from; each list that is learned from replaces the oldest.
SAMPLES = 4

_SAME = 1e-8  # directions are the same if they differ by less
_NO_LEADS = np.empty(0)


@register
@dataclass(frozen=True, repr=False)
class ThompsonPairs(Algorithm):
    """Show lists of sampled weights, and learn from pairs by the chance that they could have been shown the other way round.

    The belief about the weights is a normal distribution with mean w and covariance S Sᵀ; at first w = 0 and S = I / √prior. A list
    is ranked by w + width · S ε, with a standard normal ε. What is uncertain is explored, and what is certain is not.

    A clicked document i is better than an unclicked j of the list that was seen, with P(i ≻ j) = 1 / (1 + exp(−w·(x_i − x_j))). A
    pair counts P(j was seen) · ρ^balance, relative to the sum of P(j was seen) over all pairs, so a list counts once. ρ is twice
    the chance that the sample had put the two the other way round: 2 Φ(−lead / (width · ‖Sᵀ(x_i − x_j)‖)), where lead is the
    difference of their scores by w. Of two documents that users like equally, the one that is usually above gets more clicks, but
    each such pair counts less, so position alone teaches nothing.

    The weights move by S Sᵀ g, where g is the gradient of the log likelihood of the pairs, after their information
    Σ p (1 − p) (x_i − x_j)(x_i − x_j)ᵀ has narrowed S. This is one step of an extended Kalman filter. S is updated as a square
    root, so the covariance never loses its definiteness.

    Ranking does not need S: the memory has four deviations S ε, and a list uses a random one of them. Each list that is learned
    from replaces the oldest deviation.

    If actions have weights, the document with the larger weight is the better one, and a pair counts by the difference of the
    weights, relative to the largest weight of the list. In a list of another system ρ is 1.

    Parameters
    ----------
    examination
        The model of which unclicked documents were seen.
    prior
        The precision of each weight before the first list: its standard deviation is 1 / √prior.
    width
        Factor on the deviations of sampled weights; 0 shows the best list.
    balance
        Exponent of ρ, κ: at 1 position teaches nothing, at 0 all seen pairs count equally, so that the order shown is confirmed.
    drift
        Share by which the variance of the weights grows with each list, up to that before the first list. Above 0 the ranker never
        stops to explore, and follows users whose tastes change.
    covariances
        Maximum number of weights for which all covariances are kept, as many numbers as its square. With more weights, only the
        variances are kept: S is diagonal.

    References
    ----------
    Thompson, "On the likelihood that one unknown probability exceeds another" (Biometrika 1933). Potter's square root filter in the
    form of Andrews, "A square root formulation of the Kalman covariance equations" (AIAA Journal 1968). Chapelle and Li, "An
    empirical evaluation of Thompson sampling" (NIPS 2011), for the width. Oosterhuis and de Rijke, "Differentiable unbiased online
    learning to rank" (CIKM 2018), for a weight that removes the effect of position.

    Examples
    --------
    Users click on the cheapest document. The ranker becomes sure of the weight of the price, and not of the rating:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner = Learner("thompson-pairs(prior=1)", feature_names=["price", "rating"])
    >>> query = Query("shoes", [[0.9, 0.5], [0.1, 0.5], [0.5, 0.5]])
    >>> for _ in range(64):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 1))
    >>> learner.best(query).tolist()
    [1, 2, 0]
    >>> learner.deviations.round(2).tolist()
    [0.89, 1.0]
    """

    learning_only: ClassVar[tuple[str, ...]] = ("belief",)

    examination: Examination = DependentClick(attraction=0.6, forgetting=1.0, after_click=0.1)
    prior: Annotated[float, Between(1e-6, 1e6, tuned=(0.1, 100.0), log=True)] = 15.0
    width: Annotated[float, Between(0.0, 1e3, tuned=(0.03, 1.0), log=True)] = 0.1
    balance: Annotated[float, Between(0.0, 10.0, tuned=(0.0, 1.0))] = 0.2
    drift: Annotated[float, Between(0.0, 1.0, tuned=(1e-6, 1e-3), log=True)] = 1e-4
    covariances: Annotated[int, Between(0, 100_000)] = 512

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, equally uncertain."""
        weights = np.zeros(n_features)
        weights.flags.writeable = False
        deviations = np.full(n_features, self._widest)
        belief = np.diag(deviations) if n_features <= self.covariances else deviations
        return State(weights, memory=self._memory(belief, deviations, stream))

    @property
    def _widest(self) -> float:
        """The standard deviation of each weight before the first list."""
        return 1.0 / math.sqrt(self.prior)

    def _memory(self, belief: Belief, deviations: NDArray[np.float64], stream: Stream) -> Memory:
        """Return a memory with new samples."""
        samples = np.array([_deviation(belief, stream) for _ in range(SAMPLES)])
        return {"belief": belief, "deviations": deviations, "samples": samples}

    def carry_memory(
        self, memory: Memory, n_features: int, carry: Callable[[Weights], Weights], stream: Stream
    ) -> Memory:
        """Convert the belief; in directions that the old columns did not have it starts again, and so do the other parts.

        A diagonal belief starts again, because converted weights are not independent.
        """
        belief = memory["belief"]
        if belief.ndim == 1 or n_features > self.covariances:
            return self.start(n_features, stream).memory
        known = np.array([carry(column) for column in np.ascontiguousarray(belief.T)])
        basis = qr_basis(np.array([carry(unit) for unit in np.eye(len(belief))]), _SAME)
        rest = np.eye(n_features) - scores(basis.T, basis.T) if len(basis) < n_features else np.zeros((0, n_features))
        rows = np.concatenate((known, self._widest * qr_basis(rest, _SAME)))
        return self._memory(*kernel.widen_full(np.ascontiguousarray(rows.T), 1.0, math.inf), stream)

    def deviations(self, state: State) -> NDArray[np.float64]:
        """Return the standard deviation of each weight, as of the last 64th list."""
        found: NDArray[np.float64] = state.memory["deviations"]
        return found

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Rank by a sample of the weights; the trace has the scores of the list by the mean weights."""
        samples = state.memory["samples"]
        ranking, leads = kernel.draw(state.weights, samples, self.width, query.features, query.boosts, length, stream)
        return Impression(query, ranking, {"leads": leads})

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Return an impression with an empty trace: the list was not sampled, so pairs count in either order."""
        return Impression(query, ranking)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the step of the weights, and the memory with a narrower belief and a new deviation."""
        users = state.of("examination").memory
        seen = self.examination.weights(users, impression, feedback)
        memory = replaced(state.memory, "examination", self.examination.observe(users, impression, feedback))
        step, belief = self._narrowed(state, impression, feedback, seen)
        memory, samples = {**memory}, memory["samples"].copy()
        if (state.step + 1) % EVERY == 0:
            widen = kernel.widen_full if belief.ndim == 2 else kernel.widen_diagonal
            belief, memory["deviations"] = widen(belief, power(1.0 + self.drift, EVERY / 2), self._widest)
        samples[state.step % SAMPLES] = _deviation(belief, stream)
        return step, {**memory, "belief": belief, "samples": samples}

    def _narrowed(
        self, state: State, impression: Impression, feedback: Feedback, seen: NDArray[np.float64]
    ) -> tuple[Gradient, Belief]:
        """Return the step that the pairs of a list imply, and the belief after them."""
        belief: Belief = state.memory["belief"]
        most = float(feedback.gains.max(initial=0.0))
        if most == 0.0 or not (feedback.gains < most).any():
            return np.zeros(state.weights.shape[0]), belief
        rows = impression.query.features[impression.ranking]
        leads = impression.trace.get("leads", _NO_LEADS)
        learn = kernel.learn_full if belief.ndim == 2 else kernel.learn_diagonal
        found: tuple[Gradient, Belief] = learn(
            state.weights, belief, rows, impression.boosts, leads, feedback.gains / most, seen, self.width, self.balance
        )
        return found

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        return state.weights + gradient, state.memory


def _deviation(belief: Belief, stream: Stream) -> NDArray[np.float64]:
    """Draw S ε."""
    draw = kernel.deviation_full if belief.ndim == 2 else kernel.deviation_diagonal
    drawn: NDArray[np.float64] = draw(belief, stream)
    return drawn


alias("thompson-pairs", ThompsonPairs())
alias("thompson-pairs-curves", Represented(ThompsonPairs(), QueryScaled() >> BentLines()))
