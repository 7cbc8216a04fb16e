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

    Examples
    --------
    One direction wins clearly and one loses; the opposite of the loser counts as well:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import CreditWeighted
    >>> from duelrank.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, -1.0]])}
    >>> shown, credit = Impression(Query("shoes", [[0.5, 0.5]]), np.array([0]), tried), np.array([0.5, 0.9, 0.3])
    >>> for part in (CreditWeighted(), CreditWeighted(losers=False)):
    ...     gradient, _ = part.infer(State(np.zeros(2)), shown, Feedback([True]), credit, 1.0, stream(1, "infer"))
    ...     print(gradient.round(2).tolist())
    [0.67, 0.33]
    [1.0, 0.0]
    """

    losers: bool = True
    unit: bool = False

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted mean direction."""
        directions = impression.trace["directions"]
        return kernel.weighted_direction(directions, credit, self.losers, self.unit), state.memory
