"""Twin of `Ramps`: a ramp for each piece of each feature."""

from __future__ import annotations

from typing import Any

from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.knots import KnottedTwin, Seen, climbed
from duelrank.lockstep.values import Numbers
from duelrank.representation import Ramps

__all__ = ["RampsTwin"]

Array = Any


@twin(Ramps)
class RampsTwin(KnottedTwin):
    """One column for each piece."""

    def each(self, lists: Any) -> Any:
        """Return the number of pieces."""
        return self.pieces(lists)

    def n_knots(self, n_each: int) -> int:
        """Return one more than pieces."""
        return n_each + 1

    def apply(self, numbers: Numbers, features: Array, memory: Seen) -> Array:
        """Return the ramps."""
        return climbed(features, memory.knots)

    def rises(self, numbers: Numbers, weights: Array, knots: Array) -> Array:
        """Return the weights."""
        return weights
