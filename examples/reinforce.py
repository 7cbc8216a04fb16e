"""An algorithm that is no dueling bandit, in one file: REINFORCE on the Plackett-Luce model, with a baseline.

duelrank --load examples/reinforce.py compare reinforce pdgd mgd-dsp --runs 5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from duelrank import Algorithm, Feedback, Impression, Query, State, alias, register
from duelrank.core.memory import replaced
from duelrank.core.registry import Between
from duelrank.core.types import Features, Gradient, Memory, Ranking, Stream, Weights
from duelrank.kernels.random import uniform
from duelrank.updates import Step, Update


@register
@dataclass(frozen=True, repr=False)
class Reinforce(Algorithm):
    """Make lists with a better reward than usual more probable, and others less probable.

    A list is drawn position by position from the softmax of the scores of the documents not yet shown. Its gradient is
    (reward − baseline) · ∇ log P(list). The reward is the reciprocal rank of the first click, the baseline its moving mean. The
    number of clicks would be a bad reward: a user who has found the answer stops.

    Parameters
    ----------
    step
        Updates the weights.
    forgetting
        Weight of the mean so far in the moving mean.
    """

    moves_without_clicks: ClassVar[bool] = True  # a list without a click is worse than usual

    step: Update = Step(learning_rate=0.03)
    forgetting: Annotated[float, Between(0.0, 1.0, tuned=(0.9, 0.999))] = 0.99

    def start(self, n_features: int, stream: Stream) -> State:
        """Return zero weights, which make all lists equally probable, and a memory with the baseline."""
        weights = np.zeros(n_features)
        weights.flags.writeable = False  # states are shared
        return State(weights, memory={"baseline": np.zeros(1)})

    def explore(self, state: State, query: Query, length: int, stream: Stream) -> Impression:
        """Draw a list; the trace has the gradient at the weights that drew it, because clicks may come later."""
        scores = query.features @ state.weights
        noise = -np.log(
            [-np.log1p(-uniform(stream)) for _ in scores]
        )  # sorting by score + Gumbel noise draws from the softmax
        ranking = np.argsort(-(scores + noise), kind="stable")[:length]
        return Impression(query, ranking, {"log_gradient": _log_gradient(scores, query.features, ranking)})

    def gradient(
        self, state: State, impression: Impression, feedback: Feedback, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient, and the memory with the new baseline."""
        reward, baseline = _reward(feedback), state.memory["baseline"]
        mean = self.forgetting * baseline + (1.0 - self.forgetting) * reward
        return (reward - baseline) * impression.trace["log_gradient"], {**state.memory, "baseline": mean}

    def update(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Let the step move the weights; its memory, such as a velocity, is under the name of its field."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return weights, replaced(state.memory, "step", memory)


def _reward(feedback: Feedback) -> float:
    """Return the reciprocal rank of the first click; an action with a larger weight counts more, 0 without any."""
    return float((feedback.gains / np.arange(1, len(feedback.gains) + 1)).max())


def _log_gradient(scores: np.ndarray, features: Features, ranking: Ranking) -> Gradient:
    """Return ∇ log P(list) = Σ over positions of (features of the document − their mean over the documents not yet shown)."""
    left, total = np.arange(len(scores)), np.zeros(features.shape[1])
    for document in ranking:
        chances = np.exp(scores[left] - scores[left].max())
        total += features[document] - chances @ features[left] / chances.sum()
        left = left[left != document]
    return total


alias("reinforce", Reinforce())
