"""Averages the directions of all candidates, winners and losers, weighted by credit."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.inference.base import Inference
from duelrank.kernels import inference as kernel
from duelrank.registry import register
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["CreditWeighted"]


@register
@dataclass(frozen=True, repr=False)
class CreditWeighted(Inference):
    """Average the directions of all candidates, each weighted by its credit minus that of the current ranker.

    A mean of winners gives narrow and clear wins the same weight and ignores losers. Here a clear win counts more, and a loser
    counts in the opposite direction: the estimate of evolution strategies and two-point gradient methods. It needs graded credit,
    such as that of `SampleOnlyScored` or `Probabilistic`.

    Parameters
    ----------
    losers
        Whether candidates with less credit than the current ranker count, in the opposite direction.
    unit
        Scale the result to length 1.

    References
    ----------
    Flaxman, Kalai and McMahan, "Online convex optimization in the bandit setting: gradient descent without a gradient" (SODA 2005),
    for the estimate; nothing in the dueling-bandit literature that we know of uses it with multileaving.
    """

    losers: bool = True
    unit: bool = False

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted mean direction."""
        directions = impression.trace["directions"]
        return kernel.weighted_direction(directions, credit, self.losers, self.unit), state.memory
