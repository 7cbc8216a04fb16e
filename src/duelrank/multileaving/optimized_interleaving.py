"""Implements optimized interleaving."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.kernels.elementary import logs
from duelrank.kernels.random import uniform
from duelrank.multileaving.base import Multileaver
from duelrank.multileaving.unbiased import click_chances, earned, list_chances, prefix_bias, top_ranks, worth
from duelrank.registry import register
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["OptimizedInterleaving"]

Scoring = Literal["linear", "inverse"]
_LONGEST = 12  # the number of lists doubles with each position


@register
@dataclass(frozen=True, repr=False)
class OptimizedInterleaving(Multileaver):
    """Draw from all lists that two rankings allow, with probabilities that are unbiased and, among those, most sensitive.

    A list is allowed if each of its prefixes is the union of a prefix of one ranking and a prefix of the other. Unbiased means that
    a user who clicks at random in the top k gives both rankers equal credit, for every k. The sensitivity of a list is the
    probability that one click decides, times the entropy of the winner, with click probabilities proportional to 1/position.

    If no probabilities are unbiased, those with the smallest sum of violations are used. A document below the first ``length`` of a
    ranking counts as the next one after them, as in the paper, where rankings are as long as the list; a document that a ranker did
    not return gives it no credit. The linear programme needs SciPy (extra ``scipy``).

    Parameters
    ----------
    scoring
        The credit of a click for a ranker: "linear" in the rank of the clicked document (the paper's linear rank difference), or
        "inverse" to it.

    References
    ----------
    Radlinski and Craswell, "Optimized interleaving for online retrieval evaluation" (WSDM 2013).

    Examples
    --------
    Two rankings of three documents allow three lists of the possible six:

    >>> import numpy as np
    >>> from duelrank.multileaving import OptimizedInterleaving
    >>> from duelrank.randomness import stream
    >>> rankings = np.array([[0, 1, 2], [1, 2, 0]])
    >>> lists = [OptimizedInterleaving().leave(rankings, 3, stream(1, "list", n))[0] for n in range(100)]
    >>> sorted({tuple(each.tolist()) for each in lists})
    [(0, 1, 2), (1, 0, 2), (1, 2, 0)]
    """

    most_rankers: ClassVar[int | None] = 2

    scoring: Scoring = "inverse"

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in both rankings, or ``length`` if it is not in the top."""
        self.check_rankers(rankings.shape[0])
        if length > _LONGEST:
            raise InvalidValue(
                f"OptimizedInterleaving enumerates all possible lists, which are too many for {length} positions "
                f"(at most {_LONGEST}); use OptimizedMultileaving, which draws some"
            )
        tops = rankings[:, :length].ravel()
        documents = np.array(list(dict.fromkeys(tops[tops >= 0].tolist())))
        first, second = top_ranks(rankings, documents, length).tolist()
        lists, ranks, bounds = _lists(tuple(first), tuple(second), length, self.scoring)
        chosen = min(int(np.searchsorted(bounds, uniform(stream), side="right")), len(lists) - 1)
        return documents[lists[chosen]], {"ranks": ranks[chosen]}

    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the sum of the credit of all clicks for each ranker."""
        return earned(worth(impression.trace["ranks"], self.scoring), gains)


@lru_cache(maxsize=512)
def _lists(
    first: tuple[int, ...], second: tuple[int, ...], length: int, scoring: Scoring
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return all lists that two rankings allow, the ranks of their documents in both, and the cumulative probabilities.

    ``first`` and ``second`` contain the ranks of document 0, 1, 2, …. Only the relative order of two rankings matters, so solutions
    are cached.
    """
    table = np.array([first, second])
    tops = [[int(document) for document in np.argsort(row, kind="stable") if row[document] < length] for row in table]
    lists = np.array(_allowed(tops, length, ()), np.int64)
    ranks = np.stack([row[lists] for row in table], axis=1)
    credits = worth(ranks, scoring)
    chances = list_chances(prefix_bias(credits), _sensitivity(credits))
    return lists, ranks, chances.cumsum()


def _allowed(tops: list[list[int]], length: int, shown: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all extensions of a prefix: with the best remaining document of either ranking."""
    if len(shown) == length:
        return [shown]
    left = ([document for document in top if document not in shown] for top in tops)
    following = {documents[0] for documents in left if documents}
    return [found for document in sorted(following) for found in _allowed(tops, length, (*shown, document))]


def _sensitivity(worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(a click decides) · entropy of the winner, for each list."""
    lead = worth[:, 0] - worth[:, 1]
    clicks = click_chances(lead.shape[1])
    wins = np.stack([((lead > 0) * clicks).sum(axis=1), ((lead < 0) * clicks).sum(axis=1)])
    decided = wins.sum(axis=0)
    shares = np.divide(wins, decided, out=np.zeros_like(wins), where=decided > 0)
    values: NDArray[np.float64] = decided * -(shares * logs(np.where(shares > 0, shares, 1.0))).sum(axis=0)
    return values
