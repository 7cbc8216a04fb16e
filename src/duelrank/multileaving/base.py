"""Defines the interface of multileaving methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidRecipe
from duelrank.registry import Part, classes
from duelrank.types import Credit, Gains, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["Multileaver", "Preferences"]

Preferences: TypeAlias = NDArray[
    np.float64
]  # (n_rankers, n_rankers), antisymmetric; positive where the row is preferred


@dataclass(frozen=True, repr=False)
class Multileaver(Part, ABC):
    """Merge the rankings of several rankers into one list, and convert its clicks into credit for each of them.

    A ranker may have returned only some of the documents; its row of the rankings is then padded with −1. It adds no other
    documents to the list, and never gets credit for clicks on other documents.
    """

    kind: ClassVar[str] = "multileaver"
    #: Maximum number of rankers that it can compare at once; None for no limit.
    most_rankers: ClassVar[int | None] = None

    @abstractmethod
    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return a list of the given length without duplicates, and the evidence that `assign_credit` needs.

        The length is at most the number of documents (the columns of the rankings), each of which some ranker returned.
        """

    def evidence(self, rankings: Rankings, ranking: Ranking) -> Trace:
        """Return the evidence that `assign_credit` needs for a list made elsewhere; raise `InvalidRecipe` if that is impossible."""
        raise InvalidRecipe(f"{self!r} can assign credit only for lists that it has made itself")

    @abstractmethod
    def assign_credit(self, impression: Impression, gains: Gains, stream: Stream) -> Credit:
        """Return the credit of each ranker; a ranker that beats the current ranker has more than entry 0.

        A position without a click has gained 0, another one what its click weighs: 1, or more for an action that means more.
        The stream is for methods that estimate credit from samples; most methods do not use it.
        """

    def preferences(self, impression: Impression, gains: Gains, stream: Stream) -> Preferences:
        """Return the preference of each ranker (row) over each other (column): by default, their difference in credit."""
        credit = self.assign_credit(impression, gains, stream)
        return credit[:, np.newaxis] - credit[np.newaxis, :]

    def check_rankers(self, n_rankers: int) -> None:
        """Raise `InvalidRecipe` if there are more rankers than it can compare at once."""
        if self.most_rankers is not None and n_rankers > self.most_rankers:
            others = [name for name, cls in classes(Multileaver).items() if getattr(cls, "most_rankers", None) is None]
            raise InvalidRecipe(
                f"{self!r} compares {self.most_rankers} rankers (one candidate with the current one), got {n_rankers}; "
                f"for more use {', '.join(others[:-1])} or {others[-1]}"
            )
