"""Averages the directions of all candidates, winners and losers, weighted by credit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from duelrank.inference.base import Inference
from duelrank.kernels import inference as kernel
from duelrank.registry import register
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["CreditWeighted"]


@register
@dataclass(frozen=True, repr=False)
class CreditWeighted(Inference):
    """Average the directions of all candidates, each weighted by its credit minus that of the current ranker, or minus the mean.

    A mean of winners gives narrow and clear wins the same weight and ignores losers. Here a clear win counts more, and a loser
    counts in the opposite direction: the estimate of evolution strategies and two-point gradient methods. It needs graded credit,
    such as that of `SampleOnlyScored` or `Probabilistic`.

    Parameters
    ----------
    losers
        Whether candidates with less credit than the current ranker count, in the opposite direction.
    unit
        Scale the result to length 1.
    against
        What credit is compared with: "current": that of the current ranker. "mean": the mean of the candidates; whoever is above it
        counts as a winner. Directions are as likely as their opposites, so both point the same way on average, but the current
        ranker's luck on one list then moves nothing.

    References
    ----------
    Flaxman, Kalai and McMahan, "Online convex optimization in the bandit setting: gradient descent without a gradient" (SODA 2005),
    for the estimate; nothing in the dueling-bandit literature that we know of uses it with multileaving.
    """

    added_fields: ClassVar[Mapping[str, Any]] = {"against": "current"}

    losers: bool = True
    unit: bool = False
    against: Literal["current", "mean"] = "current"

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the weighted mean direction."""
        directions = impression.trace["directions"]
        if self.against == "mean":
            credit = np.concatenate(([credit[1:].mean()], credit[1:]))
        return kernel.weighted_direction(directions, credit, self.losers, self.unit), state.memory
