"""Defines the interface of inference: converting credit into a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["Inference"]


@dataclass(frozen=True, repr=False)
class Inference(Part, ABC):
    """Convert the credit of a comparison into a gradient, which is zero if no candidate beat the current ranker.

    ``state.memory`` is the memory of this part only, and so is the memory that `infer` returns.
    """

    kind: ClassVar[str] = "inference"

    @abstractmethod
    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient and the new memory; candidate i ranked with weights + delta · direction i."""
