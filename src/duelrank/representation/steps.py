"""One staircase for each feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.kernels.representation import steps
from duelrank.registry import Between, alias, register
from duelrank.representation.base import Curve
from duelrank.representation.knots import Knots, Knotted, heights_at
from duelrank.types import Features, Memory, Weights, frozen

__all__ = ["Steps"]


@register
@dataclass(frozen=True, repr=False)
class Steps(Knotted):
    """Cut the axis of each feature into pieces of equal height: a step from 0 to 1 behind each knot, which is 1 if x > q_k.

    The score is a sum of staircases, one per feature, which engines that know decision trees take exactly. Before the first
    knots it is linear in the place of each value in the range of its query; that line becomes a staircase of the same rise.

    Parameters
    ----------
    pieces
        Pieces per feature; there is one step fewer.
    sample
        How many documents are remembered to place the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Steps
    >>> price = {"knots": np.array([[5.0, 20.0, 60.0, 900.0]])}
    >>> Steps(pieces=3).apply(np.array([[20.0], [40.0], [900.0]]), price).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """

    pieces: Annotated[int, Between(2, 64, choices=(2, 4, 8))] = 4

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Start without knots, whatever is known of the values."""
        return super().start(n_features, unit=False)

    def _moved(self, knots: Knots, memory: Memory, n_pieces: int, unit: bool) -> Knots:
        """Place each threshold midway between two different values, so that rounding one of them changes nothing."""
        after = super()._moved(knots, memory, n_pieces, unit)
        if after is knots:
            return knots
        for row, values in zip(after, np.asarray(memory["sample"], np.float64).T, strict=True):
            found = np.unique(values)
            if len(found) > 1:
                left = np.clip(np.searchsorted(found, row[1:-1], "right") - 1, 0, len(found) - 2)
                row[1:-1] = np.sort(0.5 * found[left] + 0.5 * found[left + 1])
        return knots if np.array_equal(after, knots) else after

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        return self.pieces

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return one column for each inner knot of each feature."""
        return n_features * max(1, len(memory["knots"][0]) - 2)

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = steps(features, knots)
        return columns

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Give each step what the old curve rises around its knot: from the middle of the piece before to that of the next."""
        old, new = before["knots"], after["knots"]
        if np.isnan(new[0, 0]):
            return frozen(weights.reshape(-1, len(old)).sum(axis=0))
        middles = 0.5 * new[:, 1:] + 0.5 * new[:, :-1]
        if np.isnan(old[0, 0]):
            share = np.arange(1, new.shape[1]) / (new.shape[1] - 1) - 0.5 / (new.shape[1] - 1)
            heights = weights[:, None] * share
        else:
            heights = heights_at(self.curves(weights, before), middles)
        return frozen(np.diff(heights, axis=1).T.ravel())

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return for each feature the sum of its steps."""
        rises = weights.reshape(-1, len(knots)).T
        heights = np.concatenate([np.zeros((len(knots), 1)), np.cumsum(rises, axis=1)], axis=1)
        return [Curve(*each, "steps") for each in zip(knots[:, :-1], heights, strict=True)]


alias("steps", Steps())
