"""Defines click bandits that sort documents by upper confidence bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.click_bandit import ClickBandit, Model, best_first
from duelrank.core.types import Clicks, Impression, Ranking, Stream, Trace
from duelrank.kernels import bandits as kernel

__all__ = ["IndexBandit"]


@dataclass(frozen=True, repr=False)
class IndexBandit(ClickBandit):
    """Show the documents with the largest upper confidence bounds on their attraction, best first.

    A click model says how many of the shown documents were examined: those were attractive if clicked, unattractive if not. Counts
    may be added in any order, so late feedback is as good as any. The papers observe every document once before the first
    round; here the bound of a document that was never examined is infinite. The rounds t are those of the query.
    """

    @abstractmethod
    def bounds(self, model: Model, rounds: int) -> NDArray[np.float64]:
        """Return the upper confidence bound of each document."""

    @abstractmethod
    def examined(self, clicks: Clicks) -> int:
        """Return the number of positions, from the top, that the user examined according to the clicks."""

    def show(self, model: Model, rounds: int, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Sort by the bounds, ties at random."""
        return best_first(self.bounds(model, rounds), stream)[:length], {}

    def count(self, model: Model, impression: Impression, clicks: Clicks) -> Model:
        """Count the examined documents and the clicks."""
        after: Model = kernel.count(model, impression.ranking, clicks, self.examined(clicks))
        return after

    def attraction(self, model: Model) -> NDArray[np.float64]:
        """Return the click rate; a document that was never examined counts as never clicked."""
        rates: NDArray[np.float64] = model[1] / np.maximum(model[0], 1)
        return rates
