"""PDGD: pairwise differentiable gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from duelrank.algorithms.base import Algorithm
from duelrank.core.memory import replaced
from duelrank.core.registry import alias, register
from duelrank.core.types import Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.kernels.exploration import unit_directions
from duelrank.kernels.pdgd import draw, pair_gradient, skip_gradient
from duelrank.kernels.ranking import linear_scores
from duelrank.projection import Examination
from duelrank.updates import Step, Update


@register
@dataclass(frozen=True, repr=False)
class PDGD(Algorithm):
    """Pairwise differentiable gradient descent: learn from preferences between the documents of one list, without candidates.

    The list is drawn from the Plackett-Luce model: each position from the softmax of the scores of the documents not yet shown. A
    clicked document i is preferred to an unclicked j that was examined: those above the last click, and the next one. Each
    preference adds ρ ∇P(i ≻ j) to the gradient, with P(i ≻ j) = e^{w·x_i} / (e^{w·x_i} + e^{w·x_j}) and
    ρ = P(list with i and j swapped) / (P(list) + P(list with them swapped)), which removes the influence of the order of the list
    on the clicks. The gradient is a sum of shown, examined documents, so a document space projection does not change it.

    If actions have weights, a preference counts by the weight of i minus that of j. An unclicked j weighs 0, so a purchase of
    weight 10 counts ten times as much as a click; against a document that was only clicked, nine times as much.

    Feedback may be late, after the weights have changed: ρ corrects the bias of the draw, so it needs the scores with which the
    list was drawn, and these are in the trace, for all documents; ∇P is taken at the current weights. If feedback is immediate, as
    in the paper, both are the same weights.

    A list of another system was not drawn from the scores, so ρ does not correct its bias: documents at the top are skipped more
    often, and PDGD learns small weights for the features that the other system sorts by. ``observed`` corrects this.

    Parameters
    ----------
    step
        Updates the weights; the paper's α is 0.1 for linear rankers.
    initial
        The weights before the first impression: "zero", or "random" for a random unit vector.
    observed
        The interpretation of lists of other systems. None: as if they were drawn from the current scores. An examination model: a
        clicked document i is preferred to each unclicked j of the list, and each preference adds ¼ P(j was seen) ∇ log P(i ≻ j).
        If the model is right, a pair of positions counts equally in both directions, so the order of the list has no influence.
        ``DependentClick(forgetting=1.0)`` learns the behaviour of the users from the same clicks. Own lists are not affected.

    References
    ----------
    Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018).

    Examples
    --------
    Users click on the cheapest document; after 20 lists the ranker has it first:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner = Learner("pdgd", feature_names=["price", "rating"])
    >>> query = Query("shoes", [[0.9, 0.5], [0.1, 0.4], [0.5, 0.6]])
    >>> for _ in range(20):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 1))
    >>> learner.best(query).tolist()
    [1, 2, 0]
    """

    # It affects only lists of other systems.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"observed"})
    added_fields: ClassVar[Mapping[str, Any]] = {"observed": None}

    step: Update = Step(learning_rate=0.1)
    initial: Literal["zero", "random"] = "zero"
    observed: Examination | None = None

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, or a random unit vector."""
        weights = np.zeros(n_features) if self.initial == "zero" else unit_directions(1, n_features, stream)[0]
        weights.flags.writeable = False
        return State(weights)

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Draw a list from the Plackett-Luce model."""
        ranking, scored = draw(state.weights, query.features, query.boosts, length, stream)
        return Impression(query, ranking, {"scores": scored})

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Return the impression with the current scores, or with an empty trace if there is an examination model."""
        if self.observed is not None:
            return Impression(query, ranking)
        return Impression(query, ranking, {"scores": query.boosted(linear_scores(state.weights, query.features))})

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted sum over all preferences; only an examination model changes the memory."""
        if self.observed is not None and "scores" not in impression.trace:
            return self._observed_gradient(self.observed, state, impression, feedback)
        query, scored = impression.query, impression.trace["scores"]
        gradient: Gradient = pair_gradient(
            state.weights, query.features, query.boosts, scored, impression.ranking, feedback.gains
        )
        return gradient, state.memory

    @staticmethod
    def _observed_gradient(
        examination: Examination, state: State, impression: Impression, feedback: Feedback
    ) -> tuple[Gradient, Memory]:
        """Return the sum over the preferences in a list of another system, and the updated examination model."""
        users = state.of("observed").memory
        seen = examination.weights(users, impression, feedback)
        query = impression.query
        gradient: Gradient = skip_gradient(
            state.weights, query.features, query.boosts, impression.ranking, feedback.gains, seen
        )
        return gradient, replaced(state.memory, "observed", examination.observe(users, impression, feedback))

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


alias("pdgd", PDGD())
