"""Implements team draft multileaving."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duelrank.kernels import team_draft as kernel
from duelrank.multileaving.base import Multileaver
from duelrank.registry import register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["TeamDraft"]


@register
@dataclass(frozen=True, repr=False)
class TeamDraft(Multileaver):
    """In each round, the rankers take turns in random order to add their best document that is not yet in the list.

    A ranker owns the documents that it added, and gets one point per click on them, or what the click weighs. If all rankers agree
    on the first documents, no ranker owns these.

    References
    ----------
    Radlinski, Kurup and Joachims, "How does clickthrough data reflect retrieval quality?" (CIKM 2008); Schuth et al.,
    "Multileaved comparisons for fast online evaluation" (CIKM 2014).

    Examples
    --------
    Two rankers have four documents in opposite orders. The list, and which ranker gets the click at each position:

    >>> import numpy as np
    >>> from duelrank.multileaving import TeamDraft
    >>> from duelrank.randomness import stream
    >>> ranking, trace = TeamDraft().leave(np.array([[0, 1, 2, 3], [3, 2, 1, 0]]), 4, stream(1, "list"))
    >>> ranking.tolist(), trace["teams"].tolist()
    ([3, 0, 2, 1], [1, 0, 1, 0])
    """

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the ranker that owns each position."""
        ranking, teams = kernel.leave(rankings, length, stream)
        return ranking, {"teams": teams, "n_rankers": np.array(rankings.shape[0])}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the gains of the documents of each ranker."""
        sums: Credit = kernel.credit(impression.trace["teams"], gains, int(impression.trace["n_rankers"]))
        return sums
