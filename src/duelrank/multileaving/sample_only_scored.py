"""Implements sample-only scored multileaving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import sample_only_scored as kernel
from duelrank.kernels import team_draft
from duelrank.kernels.leaving import shown_ranks
from duelrank.multileaving.base import Multileaver
from duelrank.registry import Between, register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["RanksOfShown", "SampleOnlyScored"]


@dataclass(frozen=True, repr=False)
class RanksOfShown(Multileaver):
    """Make team-draft lists whose credit depends only on how each ranker orders what was shown."""

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return a team-draft list, and the rank of each shown document in each ranking."""
        ranking, _ = team_draft.leave(rankings, length, stream)
        return ranking, {"ranks": shown_ranks(rankings, ranking)}

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the rank of each shown document in each ranking."""
        return {"ranks": shown_ranks(rankings, ranking)}


@register
@dataclass(frozen=True, repr=False)
class SampleOnlyScored(RanksOfShown):
    """Make a team-draft list, and score each ranker by its own order of the documents in that list (SOSM).

    Credit = Σ gain/r^τ over the clicks, r the rank of the clicked document among the shown ones. It does not matter which ranker
    added a document, so similar rankers share their clicks instead of splitting them.

    All rankers that returned all shown documents have the same total score, so clicks that are uniform over positions favour none
    of them, on any list. Clicks that prefer the upper positions, whatever their documents, favour rankers that agree with
    the others.

    Parameters
    ----------
    tau
        How steeply the points decrease with the rank (the paper's softmax has the same τ; its normalisation is the same for all
        rankers, and left out).

    References
    ----------
    Brost, Cox, Seldin and Lioma, "An improved multileaving algorithm for online ranker evaluation" (SIGIR 2016).

    Examples
    --------
    A click on document 0. Two rankers have it first, and both get all of the credit; to the third it is worth half:

    >>> import numpy as np
    >>> from duelrank import Impression, Query
    >>> from duelrank.multileaving import SampleOnlyScored
    >>> from duelrank.randomness import stream
    >>> ranking = np.array([1, 0])
    >>> trace = SampleOnlyScored(tau=1.0).evidence(np.array([[0, 1], [0, 1], [1, 0]]), ranking)
    >>> shown = Impression(Query("shoes", [[0.9], [0.1]]), ranking, trace)
    >>> SampleOnlyScored(tau=1.0).assign_credit(shown, np.array([0.0, 1.0]), stream(1, "credit")).tolist()
    [1.0, 1.0, 0.5]
    """

    tau: Annotated[float, Between(0.0, 20.0, tuned=(0.3, 10.0), log=True)] = 3.0

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return each ranker's points for the clicked documents."""
        points: Credit = kernel.credit(impression.trace["ranks"], gains, self.tau)
        return points
