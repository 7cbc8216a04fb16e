"""One curve for each feature: a line, and bends that must earn their weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.kernels.representation import line_and_ramps
from duelrank.registry import Between, alias, register
from duelrank.representation.base import Curve
from duelrank.representation.knots import EVERY, FIRST, Knots, Knotted, heights_at, risen
from duelrank.types import Features, Memory, Weights, frozen

__all__ = ["BentLines"]


@register
@dataclass(frozen=True, repr=False)
class BentLines(Knotted):
    """Offer each feature as a line and as ramps (see `Ramps`), the ramps lower: what is linear stays easy to learn.

    The columns of a feature are its line, from 0 at the first knot to 1 at the last, and ``bend`` times the ramp of each piece.
    A lower column moves the score less for the same step of its weight, so a curve bends only where users keep asking for it. A
    ranker starts with the lines alone, and gets ramps as it has seen more: two pieces after 16 lists, four after 16,384 and eight
    after 16,777,216. Neither the first ramps nor halving a piece changes a score.

    Parameters
    ----------
    pieces
        The most pieces per feature.
    sample
        How many documents are remembered to place the knots.
    bend
        Height of the ramps; 0.5 was chosen on validation data.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import BentLines
    >>> price = {"knots": np.array([[0.0, 20.0, 100.0]])}
    >>> BentLines(pieces=2).apply(np.array([[10.0], [60.0]]), price).tolist()
    [[0.1, 0.25, 0.0], [0.6, 0.5, 0.25]]
    """

    bend: Annotated[float, Between(1e-6, 1e6, tuned=(0.01, 10.0), log=True)] = 0.5

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        """Halve the pieces after 16 lists, and again after 1,024 times as many as the last time: columns cost noise."""
        enough = FIRST * EVERY ** (n_pieces.bit_length() - 1)
        return min(self.pieces, 2 * n_pieces) if lists >= enough else n_pieces

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return one column for the line of each feature and, with two pieces or more, one for each of its pieces."""
        n_pieces = len(memory["knots"][0]) - 1
        return n_features * (n_pieces + 1 if n_pieces > 1 else 1)

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = line_and_ramps(features, knots, self.bend)
        return columns

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Keep each line's rise, and let the ramps make the rest of the curve, through its heights at the new knots."""
        old, new = before["knots"], after["knots"]
        if np.isnan(new[0, 0]):
            return frozen(np.array([curve.heights[-1] for curve in self.curves(weights, before)]))
        if np.isnan(old[0, 0]):
            old = new[:, [0, -1]]
        heights = heights_at(self._curves(weights, old), new)
        lines, width = weights[: len(old)], new[:, -1:] - new[:, :1]
        if new.shape[1] == 2:
            return frozen(np.where(width[:, 0] > 0.0, heights[:, 1] - heights[:, 0], lines))
        shares = np.diff(new, axis=1) / np.where(width > 0.0, width, 1.0)
        bends = (np.diff(heights, axis=1) - lines[:, None] * shares) / self.bend
        return frozen(np.concatenate([lines, bends.T.ravel()]))

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return for each feature the sum of its line and its ramps."""
        columns = weights.reshape(-1, len(knots)).T
        width = knots[:, -1:] - knots[:, :1]
        rises = columns[:, :1] * np.diff(knots, axis=1) / np.where(width > 0.0, width, 1.0)
        if columns.shape[1] > 1:
            rises = rises + self.bend * columns[:, 1:]
        return risen(knots, rises)


alias("curves", BentLines())
