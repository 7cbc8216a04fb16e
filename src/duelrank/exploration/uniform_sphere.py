"""Draws directions uniformly from the unit sphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.exploration.base import Exploration
from duelrank.kernels import exploration as kernel
from duelrank.registry import Between, register
from duelrank.types import Directions, Query, State, Stream

__all__ = ["UniformSphere"]


@register
@dataclass(frozen=True, repr=False)
class UniformSphere(Exploration):
    """Try directions drawn uniformly from the unit sphere of all features.

    Unbiased: the expected winning direction is proportional to the gradient of the smoothed utility.

    Parameters
    ----------
    n_candidates
        Number of directions that are compared with the current ranker at once.

    References
    ----------
    Yue and Joachims, "Interactively optimizing information retrieval systems as a dueling bandits problem" (ICML 2009).

    Examples
    --------
    Four rankers to try, all equally far from the current one:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import UniformSphere
    >>> from duelrank.randomness import stream
    >>> query = Query("shoes", [[0.2, 0.9, 0.1], [0.7, 0.3, 0.4]])
    >>> tried = UniformSphere(n_candidates=4).directions(State(np.zeros(3)), query, stream(1, "draw"))
    >>> np.linalg.norm(tried, axis=1).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    n_candidates: Annotated[int, Between(1, 1000, choices=(4, 9, 19, 49))] = 1

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw n_candidates unit vectors."""
        drawn: Directions = kernel.unit_directions(self.n_candidates, state.weights.shape[0], stream)
        return drawn
