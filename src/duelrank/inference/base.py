"""What every way of turning credit into a gradient does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["Inference"]


@dataclass(frozen=True, repr=False)
class Inference(Part, ABC):
    """Turn the credit of a comparison into a gradient, zero where no candidate beat the current ranker.

    ``state.memory`` is that of this part alone, and so is what `infer` returns.
    """

    kind: ClassVar[str] = "inference"

    @abstractmethod
    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the gradient and the memory afterwards; candidate i ranked with weights + delta · direction i."""
