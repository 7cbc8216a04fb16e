"""Implements probabilistic multileaving, with exact or sampled credit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from duelrank.kernels import probabilistic as kernel
from duelrank.kernels.leaving import returned, shown_ranks
from duelrank.multileaving.base import Multileaver, Preferences
from duelrank.registry import Between, register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["Probabilistic"]


@register
@dataclass(frozen=True, repr=False)
class Probabilistic(Multileaver):
    """Draw each position from a randomly chosen ranker's softmax over its ranks, P(rank r) ∝ 1/r^τ.

    Which ranker placed a document is unknown afterwards; the credit of a candidate is its expected preference over the
    current ranker, E[sign(clicks of i − clicks of current)], over all the ways in which the list may have been
    assigned to rankers. Where clicks have weights, their sums are compared; weights without a small common measure are rounded to
    thousandths of what the list has gained.

    Parameters
    ----------
    tau
        Steepness of the softmax (the papers' τ).
    credit
        "exact" computes the expectation, by convolution over the clicks, so a candidate that ranks as the current one does gets
        exactly 0. "sampled" averages over random assignments of the clicks, as the published code of the papers does: a candidate
        with an expected preference of 0 then wins almost half of the time, and one that is slightly worse may win too. This noise
        is part of published results.
    samples
        Number of assignments that "sampled" draws (10,000 in the published code).

    References
    ----------
    Hofmann, Whiteson and de Rijke, "A probabilistic method for inferring preferences from clicks" (CIKM 2011); Schuth et al.,
    "Probabilistic multileave for online retrieval evaluation" (SIGIR 2015).

    Examples
    --------
    Both rankers have document 0 first. Of 1,000 lists with a flat and with a steep softmax, so many begin with it:

    >>> import numpy as np
    >>> from duelrank.multileaving import Probabilistic
    >>> from duelrank.randomness import stream
    >>> rankings = np.array([[0, 1, 2], [0, 2, 1]])
    >>> for tau in (0.5, 3.0):
    ...     lists = [Probabilistic(tau).leave(rankings, 3, stream(1, "list", n))[0] for n in range(1000)]
    ...     print(tau, sum(int(ranking[0] == 0) for ranking in lists))
    0.5 433
    3.0 844
    """

    # Exact credit draws no samples.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"samples"})
    added_fields: ClassVar[Mapping[str, Any]] = {"credit": "exact", "samples": 10_000}

    tau: Annotated[float, Between(0.0, 20.0, tuned=(0.3, 10.0), log=True)] = 3.0
    credit: Literal["exact", "sampled"] = "exact"
    samples: Annotated[int, Between(1, 1_000_000)] = 10_000

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, the rank of each shown document in each ranking, and the number of documents of each ranker."""
        ranking, ranks, sizes = kernel.leave(rankings, length, self.tau, stream)
        return ranking, {"ranks": ranks, "sizes": sizes}

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the ranks of the shown documents and the sizes of the rankings: the credit depends only on these."""
        return {"ranks": shown_ranks(rankings, ranking), "sizes": returned(rankings)}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return each candidate's expected preference over the current ranker."""
        ranks, sizes = impression.trace["ranks"], impression.trace["sizes"]
        values: Credit
        if self.credit == "exact":
            values = kernel.credit(ranks, gains, sizes, self.tau)
        else:
            drawn = kernel.assignments(kernel.placements(ranks, gains, sizes, self.tau), self.samples, stream)
            values = kernel.sampled_preference(*drawn, kernel.whole_gains(gains), len(ranks), 0)
        return values

    def preferences(self, impression: Impression, gains: Gains, stream: Stream) -> Preferences:
        """Return each ranker's expected preference over each other one; the preference over the current ranker is the credit."""
        ranks = impression.trace["ranks"]
        n, placed = len(ranks), kernel.placements(ranks, gains, impression.trace["sizes"], self.tau)
        steps = kernel.whole_gains(gains)
        if self.credit == "sampled":
            drawn = kernel.assignments(placed, self.samples, stream)
            return np.stack([kernel.sampled_preference(*drawn, steps, n, rival) for rival in range(n)], axis=1)
        table = np.zeros((n, n))
        for row, column in np.argwhere(~np.eye(n, dtype=bool)):
            table[row, column] = kernel.preference(placed[:, row], placed[:, column], steps)
        return table
