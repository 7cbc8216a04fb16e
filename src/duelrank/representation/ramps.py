"""One curve for each feature, straight between knots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duelrank.kernels.representation import ramps
from duelrank.registry import alias, register
from duelrank.representation.base import Curve
from duelrank.representation.knots import Knots, Knotted, heights_at, risen
from duelrank.types import Features, Memory, Weights, frozen

__all__ = ["Ramps"]


@register
@dataclass(frozen=True, repr=False)
class Ramps(Knotted):
    """Cut the axis of each feature into pieces; on each, a ramp climbs from 0 to 1: r(x) = clip((x − q_k) / (q_{k+1} − q_k), 0, 1).

    One weight for each ramp makes the score a sum of curves, one per feature, that are straight between the knots q. A straight
    line is one of them, and a piece can be halved without changing a curve: a ranker starts with one piece per feature and halves
    them as it has seen more, at the checks of `Knotted`. When knots move, each curve is drawn anew through its heights at the new
    ones.

    Parameters
    ----------
    pieces
        The most pieces per feature.
    sample
        How many documents are remembered to place the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Ramps
    >>> price = {"knots": np.array([[5.0, 20.0, 60.0, 900.0]])}
    >>> Ramps(pieces=3).apply(np.array([[2.0], [40.0], [900.0]]), price).tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 1.0]]
    """

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        return min(self.pieces, 2 * n_pieces)

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return one column for each piece of each feature."""
        return n_features * (len(memory["knots"][0]) - 1)

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = ramps(features, knots)
        return columns

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Draw each curve anew, through its heights at the new knots."""
        old, new = before["knots"], after["knots"]
        if np.isnan(new[0, 0]):  # back to the range of each query: one straight line
            return frozen(weights.reshape(-1, len(old)).sum(axis=0))
        if np.isnan(old[0, 0]):
            old = new[:, [0, -1]]
        heights = heights_at(self.curves(weights, {"knots": old}), new)
        return frozen(np.diff(heights, axis=1).T.ravel())

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return for each feature the sum of its ramps."""
        return risen(knots, weights.reshape(-1, len(knots)).T)


alias("ramps", Ramps())
