"""A fast, coarse exploration first, and the full one where that has converged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.exploration.base import Exploration
from duelrank.exploration.reference_documents import ReferenceDocuments
from duelrank.kernels.exploration import unit_directions
from duelrank.memory import replaced
from duelrank.registry import Between, register
from duelrank.types import Credit, Directions, Feedback, Impression, Memory, Query, State, Stream, Weights

__all__ = ["SpeedThenQuality"]


@register
@dataclass(frozen=True, repr=False)
class SpeedThenQuality(Exploration):
    """Explore the space of a few reference documents until the model stops turning, then all features.

    It has stopped where the cosine between its weights and those of h clicked impressions before is above 1 − ε; here that is
    looked at after every h of them, in the published code after each. Exploration never goes back. The weights stay what they
    are: both spaces share them. (The published code learns θ instead, and at the switch also changes the weights' length.)

    Parameters
    ----------
    fast
        How to explore at first; later as many directions are drawn uniformly from the unit sphere of all features.
    lookback
        How many clicked impressions lie between the weights that are compared (the paper's h).
    least_turn
        1 − cosine below which the model has stopped turning (the paper's ε).

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).
    """

    fast: ReferenceDocuments = ReferenceDocuments()
    lookback: Annotated[int, Between(1, 1_000_000)] = 10
    least_turn: Annotated[float, Between(0.0, 2.0)] = 0.01

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw from the space that is explored at this time."""
        if "cascaded" not in state.memory:
            return self.fast.directions(state.of("fast"), query, stream)
        drawn: Directions = unit_directions(self.fast.n_candidates, state.weights.shape[0], stream)
        return drawn

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Compare the weights with those of before; once they stand still, forget all that the fast exploration needs."""
        memory = state.memory
        if "cascaded" in memory:
            return memory
        before, age = memory.get("checkpoint"), int(memory.get("checkpoint_age", 0))
        if before is None or age == self.lookback:
            if before is not None and _turn(before, state.weights) < self.least_turn:
                return {"cascaded": np.array(True)}
            before, age = state.weights, 0
        fast = self.fast.observe(state.of("fast"), impression, feedback, credit, stream)
        return {**replaced(memory, "fast", fast), "checkpoint": before, "checkpoint_age": np.array(age + 1)}


def _turn(before: Weights, now: Weights) -> float:
    """1 − the cosine between two vectors; infinite where one is zero, which points nowhere."""
    lengths = float(np.linalg.norm(before) * np.linalg.norm(now))
    return 1.0 - float(before @ now) / lengths if lengths > 0.0 else math.inf
