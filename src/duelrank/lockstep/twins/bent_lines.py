"""Twin of `BentLines`: a line and ramps for each feature."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.knots import KnottedTwin, Seen, climbed
from duelrank.lockstep.values import Numbers
from duelrank.representation import BentLines

__all__ = ["BentLinesTwin"]

Array = Any


@twin(BentLines)
class BentLinesTwin(KnottedTwin):
    """The line is the value itself, as all values are from 0 to 1; a single piece has no ramps beside it."""

    def each(self, lists: Any) -> Any:
        """Return one for the line, and one for each of two or more pieces."""
        n_pieces = self.pieces(lists)
        return 1 + n_pieces * (n_pieces > 1)

    def n_knots(self, n_each: int) -> int:
        """Return one more than pieces."""
        return max(2, n_each)

    def apply(self, numbers: Numbers, features: Array, memory: Seen) -> Array:
        """Return the line, and ramps of the height ``bend``; the caller leaves out columns that are not there yet."""
        line = features[..., None, :]
        if len(memory.knots) == 2:
            return line
        bend = numbers["bend"].astype(features.dtype)
        return jnp.concatenate((line, bend * climbed(features, memory.knots)), axis=-2)

    def rises(self, numbers: Numbers, weights: Array, knots: Array) -> Array:
        """Return what the line and the ramps rise by."""
        line = weights[:1] * (knots[1:] - knots[:-1])
        return line if len(knots) == 2 else line + numbers["bend"].astype(weights.dtype) * weights[1:]
