"""What every way of merging rankings into one list does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Clicks, Credit, Impression, Ranking, Rankings, Stream, Trace

__all__ = ["Multileaver"]


@dataclass(frozen=True, repr=False)
class Multileaver(Part, ABC):
    """Merge the rankings of several rankers into one list, and turn its clicks into credit for each of them."""

    kind: ClassVar[str] = "multileaver"

    @abstractmethod
    def leave(self, rankings: Rankings, length: int, stream: Stream) -> tuple[Ranking, Trace]:
        """Return a list of that length without duplicates, and the evidence that `credit` will need."""

    @abstractmethod
    def credit(self, impression: Impression, clicks: Clicks) -> Credit:
        """Return the credit of each ranker; one that beats the current ranker has more than entry 0."""
