"""Implements multileaving by pairs of documents whose order the rankers dispute."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.kernels import contested_pairs as kernel
from duelrank.multileaving.sample_only_scored import RanksOfShown
from duelrank.registry import register
from duelrank.types import Credit, Gains, Impression, Stream

__all__ = ["ContestedPairs"]


@register
@dataclass(frozen=True, repr=False)
class ContestedPairs(RanksOfShown):
    """Make a team-draft list, and score each ranker by the preferences of the user that it shares, above all the contested ones.

    A clicked document is preferred to each one that was not clicked above the last click, and to the one right below it. A ranker
    that has such a pair in the user's order gets ρ: the share of rankers that have the pair in the other order than the list.

    Users click on top, whatever is there, so a click mostly confirms the order that was shown. If a pair is shown in each order as
    often as rankers have it so, ρ balances this out: the order that is shown more often counts less, and clicks that have nothing
    to do with the documents favour neither. Where all rankers agree, a click says nothing about who is better, and counts nothing.
    A team draft does not have these chances exactly: a document that half of the rankers have first and half last is mostly
    shown far above the middle. So a bias is left; it is against such documents: a skipped one loses to every click below.

    If clicks have weights, a preference counts by the difference of the two.

    References
    ----------
    Oosterhuis and de Rijke, "Differentiable unbiased online learning to rank" (CIKM 2018), for ρ, of the lists of one ranker.

    Examples
    --------
    Document 1 of the list 0, 1, 2 was clicked, so it is preferred to both others. Rankers that say so, too, get credit:

    >>> import numpy as np
    >>> from duelrank import Impression, Query
    >>> from duelrank.multileaving import ContestedPairs
    >>> from duelrank.randomness import stream
    >>> ranking = np.array([0, 1, 2])
    >>> trace = ContestedPairs().evidence(np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2]]), ranking)
    >>> shown = Impression(Query("shoes", [[0.9], [0.5], [0.1]]), ranking, trace)
    >>> ContestedPairs().assign_credit(shown, np.array([0.0, 1.0, 0.0]), stream(1, "credit")).round(2).tolist()
    [0.33, 0.0, 0.67]
    """

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return what each ranker has of the user's preferences."""
        points: Credit = kernel.credit(impression.trace["ranks"], gains)
        return points
