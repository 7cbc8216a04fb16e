"""Optimized multileaving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.kernels.leaving import draw_lists
from duelrank.kernels.random import uniform
from duelrank.multileaving.base import Multileaver
from duelrank.multileaving.unbiased import click_chances, list_chances, prefix_bias, top_ranks, worth
from duelrank.registry import Between, register
from duelrank.types import Clicks, Credit, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["OptimizedMultileaving"]


@register
@dataclass(frozen=True, repr=False)
class OptimizedMultileaving(Multileaver):
    """Draw some lists, then choose among them with the probabilities that are least biased and, of those, most sensitive.

    A click on a document is worth 1/rank to each ranker, 1/(length + 1) where the document is below its top, and nothing where the
    ranker did not return it. Unbiased means
    that a user who clicks at random in the top k gives all rankers the same, for every k. A list is sensitive where the rankers'
    credit from clicks that fall with 1/position varies little: then what varies is due to the documents.

    A few lists can rarely be mixed without any bias. Here the sum of all violations is made as small as these lists allow, and
    sensitivity decides among what is left.

    Parameters
    ----------
    n_lists
        How many lists are drawn, each position from a ranker chosen at random. More lists, less bias, and a larger programme.

    References
    ----------
    Schuth et al., "Multileaved comparisons for fast online evaluation" (CIKM 2014).
    """

    n_lists: Annotated[int, Between(1, 1000)] = 10

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in each ranking, ``length`` where it is not in its top."""
        lists = np.unique(draw_lists(rankings, length, self.n_lists, stream), axis=0)
        ranks = np.stack([top_ranks(rankings, each, length) for each in lists])
        credits = worth(ranks)
        chances = list_chances(prefix_bias(credits), -(credits @ click_chances(length)).var(axis=1))
        chosen = min(int(np.searchsorted(chances.cumsum(), uniform(stream), side="right")), len(lists) - 1)
        return lists[chosen], {"ranks": ranks[chosen]}

    def assign_credit(self, impression: Impression, clicks: Clicks, stream: Stream) -> Credit:
        """Return the sum of 1/rank over the clicks."""
        sums: Credit = worth(impression.trace["ranks"])[:, clicks].sum(axis=1)
        return sums
