"""Implements pairwise preference multileaving."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.kernels import pairwise_preference as kernel
from duelrank.kernels.leaving import shown_ranks
from duelrank.multileaving.base import Multileaver
from duelrank.registry import register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["PairwisePreference"]


@register
@dataclass(frozen=True, repr=False)
class PairwisePreference(Multileaver):
    """Infer preferences between shown documents from clicks, and score each ranker by the pairs that it orders so (PPM).

    Position p is drawn uniformly from the documents that some ranker has in its top p, so two documents that could both be chosen
    are equally likely to come in either order. A click is a preference over each document not clicked above the lowest click, and
    the one right below it; only pairs are used that came after both could be chosen, each divided by the probability of that. The
    credit of a ranker is the sum over those pairs, positive where it agrees, negative where it does not.

    Which pairs count is as in the authors' code (HarrieO/OnlineLearningToRank). In another public implementation
    (mpkato/interleaving) a click counts over the documents not clicked above that very click and the one right below it, instead of
    those around the lowest click: with several clicks it has fewer pairs.

    If clicks have weights, a preference counts by the difference of the two, so a purchase is preferred to a click as well.

    The paper averages over the pairs of an impression in its code and sums in its text; who wins is the same, and here it is the
    sum. For given pairs a ranker that moves a clicked document up never loses by it. Which pairs count depends on the tops of all
    rankers, though, so a move that brings documents to the top, or takes them from there, may cost a pair.

    References
    ----------
    Oosterhuis and de Rijke, "Sensitive and scalable online evaluation with theoretical guarantees" (CIKM 2017).

    Examples
    --------
    All users click on document a, which is first for one ranker and last for the other. Some lists cannot tell:

    >>> from duelrank import Comparison
    >>> from duelrank.multileaving import PairwisePreference
    >>> comparison = Comparison(["good", "bad"], PairwisePreference(), length=3)
    >>> for _ in range(100):
    ...     shown = comparison.show({"good": ["a", "b", "c"], "bad": ["c", "b", "a"]})
    ...     counted = comparison.record(shown, clicks=["a"])
    >>> comparison.result().wins.tolist()
    [[0, 82], [0, 0]]
    """

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, each document's ranks and earliest possible position, and the number of choices at each position."""
        ranking, earliest, choices = kernel.leave(rankings, length, stream)
        return ranking, {"ranks": shown_ranks(rankings, ranking), "earliest": earliest, "choices": choices}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the weight of the preferences that each ranker agrees with, minus those that it contradicts."""
        trace = impression.trace
        sums: Credit = kernel.credit(trace["ranks"], trace["earliest"], trace["choices"], gains)
        return sums
