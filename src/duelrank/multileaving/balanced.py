"""Implements balanced interleaving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duelrank.kernels import balanced as kernel
from duelrank.kernels.leaving import shown_ranks
from duelrank.multileaving.base import Multileaver
from duelrank.registry import register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["Balanced"]


@register
@dataclass(frozen=True, repr=False)
class Balanced(Multileaver):
    """Alternate between two rankings, in random order, so that every prefix of the list contains about equal prefixes of both.

    Let k be the better of the two ranks of the lowest clicked document: each ranker gets the gains of the clicked documents of its
    own top k.

    It is biased: against (a, b, c), the ranking (b, c, a) wins two of three random clicks. Nor is it monotone: a clicked document
    that moves up may be the lowest click, and then shortens the top in which all others count.

    References
    ----------
    Joachims, "Evaluating retrieval performance using clickthrough data" (Text Mining 2003); Radlinski, Kurup and Joachims, "How
    does clickthrough data reflect retrieval quality?" (CIKM 2008).

    Examples
    --------
    Users click on each document equally often, which speaks for neither ranking; but the method is biased.

    >>> from duelrank import Comparison
    >>> from duelrank.multileaving import Balanced
    >>> comparison = Comparison(["one", "two"], Balanced(), length=3)
    >>> for clicked in ["a", "b", "c"] * 100:
    ...     shown = comparison.show({"one": ["a", "b", "c"], "two": ["b", "c", "a"]})
    ...     counted = comparison.record(shown, clicks=[clicked])
    >>> comparison.result().wins.tolist()
    [[0, 100], [200, 0]]
    """

    most_rankers: ClassVar[int | None] = 2

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in both rankings."""
        self.check_rankers(rankings.shape[0])
        ranking = kernel.leave(rankings, length, stream)
        return ranking, {"ranks": shown_ranks(rankings, ranking)}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the gains in the top k of each ranker."""
        sums: Credit = kernel.credit(impression.trace["ranks"], gains)
        return sums
