"""Implements optimized multileaving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.kernels.leaving import draw_lists
from duelrank.kernels.random import uniform
from duelrank.multileaving.base import Multileaver
from duelrank.multileaving.unbiased import click_chances, earned, list_chances, prefix_bias, top_ranks, worth
from duelrank.registry import Between, register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["OptimizedMultileaving"]


@register
@dataclass(frozen=True, repr=False)
class OptimizedMultileaving(Multileaver):
    """Draw some lists, then choose among them with probabilities that are least biased and, among those, most sensitive.

    A click on a document gives each ranker a credit of 1/rank, 1/(length + 1) if the document is below its top, and 0 if the ranker
    did not return it. Unbiased means that a user who clicks at random in the top k gives all rankers equal credit, for every k. A
    list is sensitive if the credit of the rankers varies little for clicks with probabilities proportional to 1/position: then
    differences are due to the documents.

    A few lists rarely allow probabilities without any bias. This implementation minimises the sum of all violations, and then
    maximises sensitivity. The linear programme needs SciPy (extra ``scipy``).

    Parameters
    ----------
    n_lists
        Number of lists to draw, each position from a ranker chosen at random. More lists give less bias, but take longer.

    References
    ----------
    Schuth et al., "Multileaved comparisons for fast online evaluation" (CIKM 2014).

    Examples
    --------
    Document 1 is clicked. It is second for the first ranker, first for the second, and second for the third:

    >>> import numpy as np
    >>> from duelrank import Impression, Query
    >>> from duelrank.multileaving import OptimizedMultileaving
    >>> from duelrank.randomness import stream
    >>> rankings = np.array([[0, 1, 2], [1, 2, 0], [2, 1, 0]])
    >>> ranking, trace = OptimizedMultileaving().leave(rankings, 3, stream(1, "list"))
    >>> shown = Impression(Query("shoes", [[0.9], [0.5], [0.1]]), ranking, trace)
    >>> OptimizedMultileaving().assign_credit(shown, (ranking == 1).astype(float), stream(1, "credit")).tolist()
    [0.5, 1.0, 0.5]
    """

    n_lists: Annotated[int, Between(1, 1000)] = 10

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in each ranking, or ``length`` if it is not in the top."""
        lists = np.unique(draw_lists(rankings, length, self.n_lists, stream), axis=0)
        ranks = np.stack([top_ranks(rankings, each, length) for each in lists])
        credits = worth(ranks)
        chances = list_chances(prefix_bias(credits), -(credits * click_chances(length)).sum(axis=2).var(axis=1))
        chosen = min(int(np.searchsorted(chances.cumsum(), uniform(stream), side="right")), len(lists) - 1)
        return lists[chosen], {"ranks": ranks[chosen]}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the sum of gain/rank over the clicks."""
        return earned(worth(impression.trace["ranks"]), gains)
