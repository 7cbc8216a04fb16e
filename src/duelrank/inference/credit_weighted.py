"""Move by what every candidate has shown, winners and losers alike."""

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
    """Average the directions of all candidates, each weighted by its credit less that of the current ranker.

    A mean of winners counts a narrow win like a clear one and forgets who lost. Here a clear win counts more, and a loser points
    the other way: the estimate that evolution strategies and two-point gradient methods use. It needs credit that is a matter
    of degree, such as that of `SampleOnlyScored` or `Probabilistic`.

    Parameters
    ----------
    losers
        Whether candidates with less credit than the current ranker count, as steps away from them.
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
