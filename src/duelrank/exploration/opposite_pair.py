"""Draws one direction and its opposite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duelrank.exploration.base import Exploration
from duelrank.kernels import exploration as kernel
from duelrank.registry import register
from duelrank.types import Directions, Query, State, Stream

__all__ = ["OppositePair"]


@register
@dataclass(frozen=True, repr=False)
class OppositePair(Exploration):
    """Try a direction u drawn uniformly from the unit sphere, and −u.

    If u makes the ranker worse, −u makes it better: one of the two directions of every draw is right.

    References
    ----------
    Zhao and King, "Constructing reliable gradient exploration for online learning to rank" (CIKM 2016).

    Examples
    --------
    Two rankers to try, on opposite sides of the current one:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import OppositePair
    >>> from duelrank.randomness import stream
    >>> query = Query("shoes", [[0.2, 0.9, 0.1], [0.7, 0.3, 0.4]])
    >>> one, other = OppositePair().directions(State(np.zeros(3)), query, stream(1, "draw"))
    >>> (one + other).tolist()
    [0.0, 0.0, 0.0]
    """

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw u; return the rows u and −u."""
        drawn = kernel.unit_directions(1, state.weights.shape[0], stream)
        return np.concatenate((drawn, -drawn))
