"""PairRank: online pairwise learning to rank by divide and conquer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from duelrank.algorithms.base import Algorithm
from duelrank.core.memory import replaced
from duelrank.core.registry import Between, alias, register
from duelrank.core.types import (
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
)
from duelrank.kernels import pairrank as kernel
from duelrank.projection import Examination, LastClick
from duelrank.updates import Step, Update

REMEMBERED = 1024  # pairs whose loss is recomputed at each fit; of older ones only sums are kept
_TOLERANCE = 1e-10  # tolerance of the solver for the weights


@register
@dataclass(frozen=True, repr=False)
class PairRank(Algorithm):
    """Pairwise logistic regression with confidence intervals: certain pairs are ordered, uncertain ones are shuffled.

    P(i ≻ j) = 1 / (1 + exp(−w·(x_i − x_j))). A pair is certain if P(i ≻ j) − α · ‖x_i − x_j‖ in the norm of M⁻¹ is above 1/2,
    with M = λI + Σ (x_i − x_j)(x_i − x_j)ᵀ over all pairs learned from. The ranking is divided into the largest number of blocks
    such that every pair across two blocks is certain; each block is shuffled, and they are shown one after the other. A pair is a
    clicked document and a seen but unclicked one, matched at random, each document in at most one pair; the list may be of any
    system.

    The defaults are the authors': their public code (github.com/yilingjia/PairRank) with the options of its example. That code
    counts the document below the last click as seen, closes certain pairs transitively (``--refine``), and adds λ‖w‖² to the mean
    loss of all pairs, whereas the λI in M corresponds to λ/2 ‖w‖² added to their sum: the penalty does not fade.

    The authors fit w to all pairs ever seen, after each click. Here memory is bounded: w is fitted to the losses of the newest
    1,024 pairs, and to the second-order expansion of the loss of every older pair at the weights of the time when it was dropped.
    The distance from the exact fit is ‖w − w*‖ / ‖w*‖, where w* minimises the regularised loss over all pairs seen so far. On
    MQ2007, MQ2008 and `Synthetic`, from 25 to 4,000 lists, it was at most 0.2% at the defaults and 0.7% at the settings of the
    suite ``rivals`` (λ = 0.005895); with the loss "sum", whose weights become large, at most 3.2% (``studies/pair_fit.py``).
    If preferences change permanently, the expansions of dropped pairs are at weights that are no longer valid, and the distance
    is larger: after 4,000 pairs of one truth and 4,000 of another (20 features), 0.1%, 12% and 44%.

    If actions have weights, a pair counts in the loss by the weight of its clicked document. In M all pairs count the same: a
    purchase is one observation, like a click.

    Parameters
    ----------
    width
        The paper's α: width of the confidence intervals; at 0 every pair is certain.
    regularisation
        The paper's λ: regularisation in M and in the loss.
    loss
        The loss that λ is added to: the "mean" over pairs as in the authors' code, which keeps weights small; or the "sum".
    transitive
        Whether i ≻ k is certain if i ≻ j and j ≻ k are. It rarely matters: if P is nearly linear, that holds anyway.
    examination
        The model of which shown documents were seen; by default all down to the one below the last click.
    step
        The step towards the fitted weights.

    References
    ----------
    Jia, Wang, Guo and Wang, "PairRank: online pairwise learning to rank by divide-and-conquer" (WWW 2021).
    Jaakkola and Jordan, "Bayesian parameter estimation via variational methods" (2000), for the parabolas that the fit goes by.

    Examples
    --------
    Clicks make it certain that document 3 is the best. The other three stay uncertain, and are shown in all six orders:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner = Learner("pairrank", n_features=3)
    >>> query = Query("shoes", [[0.1, 0.2, 0.3], [0.3, 0.1, 0.5], [0.5, 0.5, 0.1], [0.2, 0.6, 0.6]])
    >>> for _ in range(100):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 3))
    >>> lists = {tuple(learner.rank(query).ranking.tolist()) for _ in range(100)}
    >>> {ranking[0] for ranking in lists}, len(lists)
    ({3}, 6)
    """

    # The norm satisfies the triangle inequality, so certainty is transitive if P is linear, as on the small data of the checks.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"transitive"})
    # The step goes the whole way to the fitted weights.
    untuned_fields: ClassVar[frozenset[str]] = frozenset({"step.learning_rate", "step.slow_down"})
    weights_follow_memory: ClassVar[bool] = True

    width: Annotated[float, Between(0.0, 1e6, tuned=(1e-3, 10.0), log=True)] = 0.1
    regularisation: Annotated[float, Between(1e-6, 1e6, tuned=(1e-3, 10.0), log=True)] = 0.1
    loss: Literal["mean", "sum"] = "mean"
    transitive: bool = True
    examination: Examination = LastClick(beyond=1)
    step: Update = Step(learning_rate=1.0)

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, with no certain pairs."""
        weights = np.zeros(n_features)
        weights.flags.writeable = False
        memory = {"curvature": np.zeros((n_features, n_features)), "target": np.zeros(n_features), "pairs": np.zeros(1)}
        inverse = np.eye(n_features) / self.regularisation
        return State(weights, memory={"inverse": inverse, **memory, **_no_pairs(n_features)})

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Order the certain pairs, and shuffle the others."""
        known = (state.weights, state.memory["inverse"], query.features, query.boosts)
        return Impression(query, kernel.shuffled_blocks(*known, self.width, self.transitive, length, stream))

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Return an impression with an empty trace: pairs have the same meaning in lists of any system."""
        return Impression(query, ranking)

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the difference between the weights that fit all pairs, including the new ones, and the current weights."""
        users = state.of("examination").memory
        seen = self.examination.weights(users, impression, feedback) > 0.0
        memory = replaced(state.memory, "examination", self.examination.observe(users, impression, feedback))
        pairs = kernel.independent_pairs(feedback.clicks, seen, stream)
        if not pairs.shape[0]:
            return np.zeros(state.weights.shape[0]), memory
        better, worse = impression.query.features[impression.ranking[pairs.T]]
        gains = feedback.gains[pairs[:, 0]]
        known = self._remember(state, better - worse, gains)
        ridge = self.regularisation * (2.0 * float(known["pairs"][0]) if self.loss == "mean" else 1.0)
        first = REMEMBERED - np.count_nonzero(known["gains"])  # the rows before are free, and zero
        newest = known["differences"][first:], known["gains"][first:], known["bounds"][first:]
        sums = known["curvature"], known["target"]
        fit, known["curvature"], bounds = kernel.fitted(state.weights, *sums, *newest, ridge, _TOLERANCE)
        known["bounds"][first:] = bounds
        return fit - state.weights, {**memory, **known}

    def _remember(self, state: State, differences: Features, gains: Gains) -> dict[str, Any]:
        """Return the memory of all pairs after adding new ones; of the oldest pairs, which are dropped, only sums are kept."""
        before = {**_no_pairs(differences.shape[1]), **state.memory}
        new = {"differences": differences, "gains": gains, "bounds": np.zeros(len(gains))}
        known = {name: np.concatenate((before[name], rows)) for name, rows in new.items()}
        leaving = known["differences"][: len(gains)], known["gains"][: len(gains)], known["bounds"][: len(gains)]
        curvature, target = kernel.expanded(state.weights, before["curvature"], before["target"], *leaving)
        return {
            "inverse": kernel.shrunk_inverse(before["inverse"], differences),
            "curvature": curvature,
            "target": target,
            "pairs": before["pairs"] + np.add.reduce(gains),
            **{name: rows[len(gains) :] for name, rows in known.items()},
        }

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


def _no_pairs(n_features: int) -> dict[str, Any]:
    """Return empty arrays for the newest pairs, of full size from the start, so that memory never grows."""
    return {
        "differences": np.zeros((REMEMBERED, n_features)),
        "gains": np.zeros(REMEMBERED),
        "bounds": np.zeros(REMEMBERED),
    }


alias("pairrank", PairRank())
