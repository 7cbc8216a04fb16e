"""Defines the interface of exploration: proposing candidate directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Credit, Directions, Feedback, Impression, Memory, Query, State, Stream

__all__ = ["Exploration"]


@dataclass(frozen=True, repr=False)
class Exploration(Part, ABC):
    """Propose unit directions in which the current ranker may move; optionally learn from the results.

    ``state.memory`` is the memory of this part only, and so is the result of `observe`.
    """

    kind: ClassVar[str] = "exploration"

    @abstractmethod
    def directions(self, state: State, query: Query, stream: Stream) -> Directions:
        """Draw the candidate directions for one query."""

    def observe(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, stream: Stream
    ) -> Memory:
        """Return the memory after a comparison with at least one click; by default it does not change."""
        return state.memory
