"""Defines the base class of dueling bandits: explore, multileave, infer, step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from duelrank.algorithms.base import Algorithm
from duelrank.core.memory import replaced
from duelrank.core.registry import Between
from duelrank.core.types import (
    NO_BOOSTS,
    Directions,
    Feedback,
    Gains,
    Gradient,
    Impression,
    Memory,
    Query,
    Ranking,
    Rankings,
    State,
    Stream,
    Weights,
)
from duelrank.exploration import Exploration, UniformSphere
from duelrank.inference import Inference, MeanWinner
from duelrank.kernels.exploration import unit_directions
from duelrank.kernels.inference import last_click
from duelrank.kernels.ranking import compared_rankings, rankings, separate_rankings
from duelrank.multileaving import Multileaver, Probabilistic
from duelrank.updates import Step, Update


@dataclass(frozen=True, repr=False)
class DuelingBandit(Algorithm):
    """Compare the current ranker w with candidates w + δu on one list, and move towards those that users preferred.

    A list with boosts (see `Query`) is shown in their order, but candidates are compared by their rankings without boosts, as on a
    list of another system: with the same large boosts in all rankings, none would differ from the others.

    If actions have weights, a ranker wins by the gains of its documents. Only proportions within a list matter: one purchase
    outweighs several clicks, but a list with a purchase moves the ranker no further than another.

    Parameters
    ----------
    exploration
        Proposes the directions u.
    multileaver
        Merges the rankings into one list, and converts its clicks into credit.
    inference
        Infers the winners and the gradient from the credit.
    step
        Updates the weights along the gradient.
    delta
        Distance of the candidates from the current ranker (the papers' δ).
    initial
        The weights before the first impression: "zero", or "random" for a random unit vector.
    ties
        The random order of documents with equal scores. "shared": one order for all rankers of an impression, so that a candidate
        with the scores of the current ranker also has its ranking, and neither can beat the other. "separate": one order for each
        ranker, as in the published code of the papers; chance then decides between two rankers with equal scores.

    Examples
    --------
    A new dueling bandit is another choice of parts:

    >>> from duelrank import DuelingBandit, simulate
    >>> from duelrank.exploration import UniformSphere
    >>> from duelrank.multileaving import TeamDraft
    >>> mine = DuelingBandit(exploration=UniformSphere(n_candidates=4), multileaver=TeamDraft())
    >>> float(simulate(mine, "synthetic(n_queries=40)", "perfect", impressions=300).offline[-1].round(2))
    0.82
    """

    added_fields: ClassVar[Mapping[str, Any]] = {"ties": "shared"}

    exploration: Exploration = UniformSphere()
    multileaver: Multileaver = Probabilistic()
    inference: Inference = MeanWinner()
    step: Update = Step()
    delta: Annotated[float, Between(0.0, 1e6, tuned=(0.1, 10.0), log=True)] = 1.0
    initial: Literal["zero", "random"] = "zero"
    ties: Literal["shared", "separate"] = "shared"

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, or a random unit vector."""
        weights = np.zeros(n_features) if self.initial == "zero" else unit_directions(1, n_features, stream)[0]
        weights.flags.writeable = False
        return State(weights)

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Draw directions, rank with each candidate, and merge."""
        directions = self.exploration.directions(state.of("exploration"), query, stream)
        if query.boosts.size and self.multileaver.judges_any_list:
            parts = (state.weights, directions, self.delta, query.features, query.boosts)
            ranked, alone = compared_rankings(*parts, self.ties == "separate", stream)
            ranking, _ = self.multileaver.leave(ranked, length, stream)
            evidence = self.multileaver.evidence(alone, ranking)
        else:
            ranked = self._rankings(state, directions, query, stream)
            ranking, evidence = self.multileaver.leave(ranked, length, stream)
        return Impression(query, ranking, {"directions": directions, **evidence})

    def observe_list(self, state: State, query: Query, ranking: Ranking, stream: Stream) -> Impression:
        """Draw directions, rank with each candidate, and compare with the list that was shown."""
        directions = self.exploration.directions(state.of("exploration"), query, stream)
        ranked = self._rankings(state, directions, query.with_boosts(NO_BOOSTS), stream)
        return Impression(query, ranking, {"directions": directions, **self.multileaver.evidence(ranked, ranking)})

    def _rankings(self, state: State, directions: Directions, query: Query, stream: Stream) -> Rankings:
        """Rank with the current ranker, row 0, and with each candidate."""
        rank = rankings if self.ties == "shared" else separate_rankings
        ranked: Rankings = rank(state.weights, directions, self.delta, query.features, query.boosts, stream)
        return ranked

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the direction towards the winners; without clicks there is no winner."""
        if last_click(feedback.clicks) == 0:
            return np.zeros(state.weights.shape[0]), state.memory
        credit = self.multileaver.assign_credit(impression, _relative(feedback), stream)
        explored = self.exploration.observe(state.of("exploration"), impression, feedback, credit, stream)
        own = state.of("inference")
        gradient, inferred = self.inference.infer(own, impression, feedback, credit, self.delta, stream)
        memory = replaced(state.memory, "exploration", explored)
        return gradient, replaced(memory, "inference", inferred)

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


def _relative(feedback: Feedback) -> Gains:
    """Return the gains relative to the largest, so that the threshold between a win and a rounding error fits every scale."""
    gains = feedback.gains
    return gains if feedback.weights is None else gains / gains.max()
