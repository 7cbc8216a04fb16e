"""Probabilistic multileaving with exact credit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from duelrank.kernels import probabilistic as kernel
from duelrank.kernels.leaving import shown_ranks
from duelrank.multileaving.base import Multileaver, Preferences
from duelrank.registry import Between, register
from duelrank.types import Clicks, Credit, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["Probabilistic"]


@register
@dataclass(frozen=True, repr=False)
class Probabilistic(Multileaver):
    """Draw each position from a randomly chosen ranker's softmax over its ranks, P(rank r) ∝ 1/r^τ.

    Which ranker placed a document is unknown afterwards; the credit of a candidate is its expected preference over the
    current ranker, E[sign(clicks of i − clicks of current)], over all the ways in which the list may have been
    assigned. It is computed exactly, by convolution over the clicks, so a candidate that ranks as the current one does gets
    exactly 0.

    Parameters
    ----------
    tau
        How steep the softmax is (the papers' τ).

    References
    ----------
    Hofmann, Whiteson and de Rijke, "A probabilistic method for inferring preferences from clicks" (CIKM 2011); Schuth et al.,
    "Probabilistic multileave for online retrieval evaluation" (SIGIR 2015).
    """

    tau: Annotated[float, Between(0.0, 20.0)] = 3.0

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in each ranking."""
        ranking, ranks = kernel.leave(rankings, length, self.tau, stream)
        return ranking, {"ranks": ranks}

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the rank of each shown document in each ranking: the credit depends on nothing else."""
        return {"ranks": shown_ranks(rankings, ranking)}

    def credit(self, impression: Impression, clicks: Clicks) -> Credit:
        """Return each candidate's expected preference over the current ranker."""
        values: Credit = kernel.credit(impression.trace["ranks"], clicks, impression.query.n_documents, self.tau)
        return values

    def preferences(self, impression: Impression, clicks: Clicks) -> Preferences:
        """Return each ranker's expected preference over each other one; that over the current ranker is its credit."""
        ranks = impression.trace["ranks"]
        placed = kernel.placements(ranks, clicks, impression.query.n_documents, self.tau)
        table = np.zeros((len(ranks), len(ranks)))
        for row, column in np.argwhere(~np.eye(len(ranks), dtype=bool)):
            table[row, column] = kernel.preference(placed[:, row], placed[:, column])
        return table
