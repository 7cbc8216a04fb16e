"""What every way of proposing candidate directions does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Credit, Directions, Feedback, Impression, Memory, Query, State, Stream

__all__ = ["Exploration"]


@dataclass(frozen=True, repr=False)
class Exploration(Part, ABC):
    """Propose unit directions in which the current ranker may move; learn from how they fared, if at all.

    ``state.memory`` is that of this part alone, and so is what `observe` returns.
    """

    kind: ClassVar[str] = "exploration"

    @abstractmethod
    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw the candidate directions for one query."""

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Return the memory after a comparison with at least one click; by default nothing is remembered."""
        return state.memory
