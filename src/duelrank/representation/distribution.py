"""The share of documents below each value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.kernels.representation import shares
from duelrank.registry import Between, alias, register
from duelrank.representation.base import Curve
from duelrank.representation.knots import Knots, Knotted
from duelrank.types import Features, Weights

__all__ = ["Distribution"]


@register
@dataclass(frozen=True, repr=False)
class Distribution(Knotted):
    """Replace each value by its share: how much of the feature's distribution is below it (ties: the middle).

    The distribution is that of the different values in a sample of the documents seen, kept as ``pieces`` pieces.

    Parameters
    ----------
    pieces
        Pieces between quantiles; shares are interpolated on each.
    sample
        How many documents are remembered.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Distribution
    >>> price = {"knots": np.array([[5.0, 20.0, 60.0, 900.0]])}
    >>> Distribution(pieces=3).apply(np.array([[2.0], [40.0], [900.0]]), price).ravel().tolist()
    [0.0, 0.5, 1.0]
    """

    pieces: Annotated[int, Between(1, 1024)] = 32

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        return self.pieces

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = shares(features, knots)
        return columns

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return the distribution of each feature, times its weight."""
        rise = np.linspace(0.0, 1.0, knots.shape[1])
        return [Curve(row, weight * rise, "ramps") for row, weight in zip(knots, weights.tolist(), strict=True)]


alias("distribution", Distribution())
