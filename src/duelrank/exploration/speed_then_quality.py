"""Explores a small space first, and the full space when the weights have converged there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.exploration.base import Exploration
from duelrank.exploration.reference_documents import ReferenceDocuments
from duelrank.kernels.exploration import unit_directions
from duelrank.kernels.span import dot, norm
from duelrank.memory import replaced
from duelrank.registry import Between, register
from duelrank.types import Credit, Directions, Feedback, Impression, Memory, Query, State, Stream, Weights

__all__ = ["SpeedThenQuality"]


@register
@dataclass(frozen=True, repr=False)
class SpeedThenQuality(Exploration):
    """Explore the space of a few reference documents until the weights stop changing direction, then all features.

    They have stopped if the cosine between the weights and those of h clicked impressions before is above 1 − ε; here that is
    checked after every h clicked impressions, in the published code after each. Exploration never switches back. The weights do not
    change at the switch: both spaces share them. (The published code learns θ instead, and also changes the length of the weights.)

    Parameters
    ----------
    fast
        The first exploration; later the same number of directions is drawn uniformly from the unit sphere of all features.
    lookback
        Number of clicked impressions between the weights that are compared (the paper's h).
    least_turn
        1 − cosine below which the weights have stopped changing direction (the paper's ε).

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).

    Examples
    --------
    With documents of two kinds, two dimensions are explored at first; all five once the weights have converged there:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import SpeedThenQuality
    >>> from duelrank.randomness import stream
    >>> query = Query("shoes", [[0.9, 0.1, 0.8, 0.0, 0.3], [0.0, 0.7, 0.1, 0.9, 0.2]])
    >>> first, later = State(np.zeros(5)), State(np.zeros(5), memory={"cascaded": np.array(True)})
    >>> tried = [SpeedThenQuality().directions(state, query, stream(1, "draw")) for state in (first, later)]
    >>> [int(np.linalg.matrix_rank(each)) for each in tried]
    [2, 5]
    """

    fast: ReferenceDocuments = ReferenceDocuments()
    lookback: Annotated[int, Between(1, 1_000_000)] = 10
    least_turn: Annotated[float, Between(0.0, 2.0)] = 0.01

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw from the space that is currently explored."""
        if "cascaded" not in state.memory:
            return self.fast.directions(state.of("fast"), query, stream)
        drawn: Directions = unit_directions(self.fast.n_candidates, state.weights.shape[0], stream)
        return drawn

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Compare the weights with earlier ones; once they have converged, drop the memory of the fast exploration."""
        memory = state.memory
        if "cascaded" in memory:
            return memory
        before, age = memory.get("checkpoint"), int(memory.get("checkpoint_age", 0))
        if before is None or age == self.lookback:
            if before is not None and _direction_change(before, state.weights) < self.least_turn:
                return {"cascaded": np.array(True)}
            before, age = state.weights, 0
        fast = self.fast.observe(state.of("fast"), impression, feedback, credit, stream)
        return {**replaced(memory, "fast", fast), "checkpoint": before, "checkpoint_age": np.array(age + 1)}


def _direction_change(before: Weights, now: Weights) -> float:
    """Return 1 − the cosine between two vectors; infinite if one is zero."""
    lengths = norm(before) * norm(now)
    return 1.0 - dot(before, now) / lengths if lengths > 0.0 else math.inf
