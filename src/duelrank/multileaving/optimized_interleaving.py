"""Optimized interleaving."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.kernels.random import uniform
from duelrank.multileaving.base import Multileaver
from duelrank.multileaving.unbiased import click_chances, list_chances, prefix_bias
from duelrank.registry import register
from duelrank.types import Clicks, Credit, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["OptimizedInterleaving"]

Scoring = Literal["linear", "inverse"]
_LONGEST = 12  # the number of lists doubles with each position


@register
@dataclass(frozen=True, repr=False)
class OptimizedInterleaving(Multileaver):
    """Choose among all lists that two rankings allow, with the probabilities that are unbiased and, of those, most sensitive.

    A list is allowed where each of its tops is made of a top of one ranking and a top of the other. Unbiased means that a user
    who clicks at random in the top k credits both alike, for every k. The sensitivity of a list is the probability that one click
    decides, times the entropy of whom it decides for, where clicks fall with 1/position.

    Where no probabilities are unbiased, those with the smallest sum of violations are taken. A document that is not in a ranking's
    first ``length`` counts as the one right behind them, as in the paper, where rankings are as long as the list.

    Parameters
    ----------
    scoring
        What a click is worth to a ranker: "linear" in the rank of the clicked document (the paper's linear rank difference), or
        "inverse" to it.

    References
    ----------
    Radlinski and Craswell, "Optimized interleaving for online retrieval evaluation" (WSDM 2013).
    """

    most_rankers: ClassVar[int | None] = 2

    scoring: Scoring = "inverse"

    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return the list, and the rank of each shown document in both rankings, ``length`` where it is not in its top."""
        self.check_rankers(rankings.shape[0])
        if length > _LONGEST:
            raise InvalidValue(
                f"OptimizedInterleaving goes through all possible lists, which are too many for {length} positions "
                f"(at most {_LONGEST}); use OptimizedMultileaving, which draws some"
            )
        first, second = rankings[0, :length].tolist(), rankings[1, :length].tolist()
        documents = list(dict.fromkeys(first + second))
        labels = {document: label for label, document in enumerate(documents)}
        lists, ranks, bounds = _lists(tuple(labels[document] for document in second), self.scoring)
        chosen = min(int(np.searchsorted(bounds, uniform(stream), side="right")), len(lists) - 1)
        return np.array(documents)[lists[chosen]], {"ranks": ranks[chosen]}

    def credit(self, impression: Impression, clicks: Clicks) -> Credit:
        """Return the sum over the clicks of what each is worth to each ranker."""
        ranks = impression.trace["ranks"]
        sums: Credit = _worth(ranks, self.scoring)[:, clicks].sum(axis=1)
        return sums


def _worth(ranks: NDArray[np.int64], scoring: Scoring) -> NDArray[np.float64]:
    """Credit of a click on documents of these ranks, from 0, in a list as long as their last axis."""
    places = 1.0 + ranks.astype(np.float64)
    return ranks.shape[-1] + 1.0 - places if scoring == "linear" else 1.0 / places


@lru_cache(maxsize=512)
def _lists(
    second: tuple[int, ...], scoring: Scoring
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """All lists that 0, 1, 2, … and ``second`` allow, the ranks of their documents in both, and the cumulated probabilities.

    Only the relative order of two rankings matters, so what was solved once is remembered for as long as there is room.
    """
    length = len(second)
    lists = np.array(_allowed(tuple(range(length)), second, ()), np.int64)
    place = np.full(2 * length, length)
    place[list(second)] = np.arange(length)
    ranks = np.stack([np.minimum(lists, length), place[lists]], axis=1)
    worth = _worth(ranks, scoring)
    chances = list_chances(prefix_bias(worth), _sensitivity(worth))
    return lists, ranks, chances.cumsum()


def _allowed(first: tuple[int, ...], second: tuple[int, ...], shown: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All ways to go on from what is shown: with the best document left of either ranking."""
    if len(shown) == max(len(first), len(second)):
        return [shown]
    following = {next(document for document in order if document not in shown) for order in (first, second)}
    return [found for document in sorted(following) for found in _allowed(first, second, (*shown, document))]


def _sensitivity(worth: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(a click decides) · entropy of whom it decides for, of each list."""
    lead = worth[:, 0] - worth[:, 1]
    clicks = click_chances(lead.shape[1])
    wins = np.stack([(lead > 0) @ clicks, (lead < 0) @ clicks])
    decided = wins.sum(axis=0)
    shares = np.divide(wins, decided, out=np.zeros_like(wins), where=decided > 0)
    from scipy.special import entr  # takes half a second, so only where a list is chosen

    values: NDArray[np.float64] = decided * entr(shares).sum(axis=0)
    return values
