"""Draws directions that avoid those that lost before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.exploration.base import Exploration
from duelrank.kernels import exploration as kernel
from duelrank.kernels.span import qr_basis
from duelrank.registry import Between, register
from duelrank.types import Credit, Directions, Feedback, Impression, Memory, Query, State, Stream

__all__ = ["NullSpace"]


@register
@dataclass(frozen=True, repr=False)
class NullSpace(Exploration):
    """Try directions that are orthogonal to the recent directions that lost most clearly.

    Of several drawn uniformly from that complement, keep those whose u · mean document of the query is farthest from 0. A
    candidate is remembered as a loser if it has less credit than the current ranker and no more than the ``n_low``-th
    smallest of all.

    The published code does not draw uniformly: it weights, by normal numbers, the vectors of the basis that symbolic elimination
    (sympy's ``nullspace``) gives, which have length 1 but are not orthogonal to each other. Directions that several of them share
    come up more often there. The margins of losers that it has not met yet are uninitialised memory, so which of the first losers
    it avoids is not defined; here it is all of them.

    Parameters
    ----------
    n_candidates
        Number of directions that are compared with the current ranker at once.
    remembered_losers
        Number of losing directions to remember, the newest ones.
    avoided
        Number of those, with the worst margins, that span the avoided space; fewer if there are fewer features, so that at least
        one dimension is left to explore.
    n_low
        Number of lowest credits that count as low.

    References
    ----------
    Wang et al., "Efficient exploration of gradient space for online learning to rank" (SIGIR 2018).

    Examples
    --------
    A ranker that preferred the first feature has lost clearly; the next candidates leave that feature alone:

    >>> import numpy as np
    >>> from duelrank import Query, State
    >>> from duelrank.exploration import NullSpace
    >>> from duelrank.randomness import stream
    >>> lost = State(np.zeros(3), memory={"avoided": np.array([[1.0, 0.0, 0.0]])})
    >>> tried = NullSpace(n_candidates=4).directions(lost, Query("shoes", [[0.2, 0.9, 0.1]]), stream(1, "draw"))
    >>> np.abs(tried).max(axis=0).round(2).tolist()
    [0.0, 0.99, 0.72]
    """

    n_candidates: Annotated[int, Between(1, 1000, choices=(4, 9, 19, 49))] = 9
    remembered_losers: Annotated[int, Between(1, 10_000)] = 60
    avoided: Annotated[int, Between(0, 10_000)] = 25
    n_low: Annotated[int, Between(1, 1001, tuned=(1, 10))] = 4

    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw 2 (n_candidates + 1) directions from the complement and keep n_candidates."""
        avoided = state.memory.get("avoided")
        if avoided is None:
            avoided = np.empty((0, state.weights.shape[0]))
        n_drawn = 2 * (self.n_candidates + 1)
        kept: Directions = kernel.null_space_directions(avoided, query.features, n_drawn, self.n_candidates, stream)
        return kept

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Remember the directions that lost, and an orthonormal basis of those to avoid."""
        memory, directions = state.memory, impression.trace["directions"]
        n_features = directions.shape[1]
        old_losers, old_margins = memory.get("losers"), memory.get("loser_margins")
        if old_losers is None or old_margins is None:
            old_losers, old_margins = np.empty((0, n_features)), np.empty(0)
        losers, margins = kernel.remember_losers(
            old_losers, old_margins, directions, credit, self.n_low, self.remembered_losers
        )
        if losers is old_losers:
            return memory
        worst = kernel.worst_rows(losers, margins, min(self.avoided, n_features - 1))
        return {**memory, "losers": losers, "loser_margins": margins, "avoided": qr_basis(worst, -1.0)}
