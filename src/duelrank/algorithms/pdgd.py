"""Pairwise differentiable gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from duelrank.algorithms.base import Algorithm
from duelrank.kernels.exploration import unit_directions
from duelrank.kernels.plackett_luce import draw, pair_gradient
from duelrank.kernels.ranking import scores
from duelrank.memory import replaced
from duelrank.registry import alias, register
from duelrank.types import Feedback, Gradient, Impression, Memory, Query, Ranking, State, Stream, Weights
from duelrank.updates import Step, Update

__all__ = ["PDGD"]


@register
@dataclass(frozen=True, repr=False)
class PDGD(Algorithm):
    """Pairwise differentiable gradient descent: no duels, but preferences between the documents of one list.

    The list is drawn from the Plackett-Luce model: each position from the softmax, over the documents not yet shown, of the
    scores. A clicked document i is preferred to an unclicked j that was looked at: those above the last click, and the next one.
    Each preference adds ρ ∇P(i ≻ j) to the gradient, with P(i ≻ j) = e^{w·x_i} / (e^{w·x_i} + e^{w·x_j}) and
    ρ = P(list with i and j swapped) / (P(list) + P(list with them swapped)), which takes out what the list's order has to do with
    who was clicked. The gradient is a sum of shown, examined documents, so a document space projection leaves it as it is.

    Feedback may be late, when the weights have moved: ρ undoes the bias of the draw, so it belongs to the scores under which the
    list was drawn, and these travel in the trace, for all documents; ∇P is taken at the weights that are about to move. Where
    feedback comes at once, as in the paper, the two are the same weights.

    Parameters
    ----------
    step
        How far to move; the paper's α is 0.1 for linear rankers.
    initial
        The weights before the first impression: "zero", or "random" for a random unit vector.

    References
    ----------
    Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018).
    """

    step: Update = Step(learning_rate=0.1)
    initial: Literal["zero", "random"] = "zero"

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, or a random unit vector."""
        weights = np.zeros(n_features) if self.initial == "zero" else unit_directions(1, n_features, stream)[0]
        weights.flags.writeable = False
        return State(weights)

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Draw a list from the Plackett-Luce model."""
        ranking, scored = draw(state.weights, query.features, length, stream)
        return Impression(query, ranking, {"scores": scored})

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Treat the list as if it were drawn with the current scores."""
        return Impression(query, ranking, {"scores": scores(state.weights.copy().reshape(1, -1), query.features)[0]})

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted sum over all preferences; the memory does not change."""
        features, scored = impression.query.features, impression.trace["scores"]
        gradient: Gradient = pair_gradient(state.weights, features, scored, impression.ranking, feedback.clicks)
        return gradient, state.memory

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


alias("pdgd", PDGD())
