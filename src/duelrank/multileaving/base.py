"""What every way of merging rankings into one list does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidRecipe
from duelrank.registry import Part, classes
from duelrank.types import Clicks, Credit, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["Multileaver", "Preferences"]

Preferences: TypeAlias = NDArray[
    np.float64
]  # (n_rankers, n_rankers), antisymmetric; positive where the row is preferred


@dataclass(frozen=True, repr=False)
class Multileaver(Part, ABC):
    """Merge the rankings of several rankers into one list, and turn its clicks into credit for each of them.

    A ranker may have returned some of the documents only; its row of the rankings then ends in −1. It adds no other document to
    the list, and a click on another one is never to its credit.
    """

    kind: ClassVar[str] = "multileaver"
    #: How many rankers it can compare at once; None where there is no limit.
    most_rankers: ClassVar[int | None] = None

    @abstractmethod
    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return a list of that length without duplicates, and the evidence that `assign_credit` will need.

        The length is at most the number of documents (the columns of the rankings), each of which some ranker returned.
        """

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return what `assign_credit` will need about a list that somebody else made; `InvalidRecipe` where it could give none."""
        raise InvalidRecipe(f"{self!r} gives credit only for lists that it has made itself")

    @abstractmethod
    def assign_credit(self, impression: Impression, clicks: Clicks, stream: Stream) -> Credit:
        """Return the credit of each ranker; one that beats the current ranker has more than entry 0.

        The stream is for methods whose credit is itself an estimate from samples; most draw nothing from it.
        """

    def preferences(self, impression: Impression, clicks: Clicks, stream: Stream) -> Preferences:
        """Return by how much each ranker (row) is preferred to each other (column): by default, their difference in credit."""
        credit = self.assign_credit(impression, clicks, stream)
        return credit[:, np.newaxis] - credit[np.newaxis, :]

    def check_rankers(self, n_rankers: int) -> None:
        """Raise `InvalidRecipe` where there are more rankers than it can compare at once."""
        if self.most_rankers is not None and n_rankers > self.most_rankers:
            others = [name for name, cls in classes(Multileaver).items() if getattr(cls, "most_rankers", None) is None]
            raise InvalidRecipe(
                f"{self!r} compares {self.most_rankers} rankers (one candidate with the current one), got {n_rankers}; "
                f"for more use {', '.join(others[:-1])} or {others[-1]}"
            )
