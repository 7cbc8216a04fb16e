"""What every way of moving the weights does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Gradient, Memory, State, Weights

__all__ = ["Update"]


@dataclass(frozen=True, repr=False)
class Update(Part, ABC):
    """Move the weights along a gradient; an update rule may remember, such as the moves before.

    ``state.memory`` is that of this part alone, and so is what `move` returns.
    """

    kind: ClassVar[str] = "update"

    @abstractmethod
    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the new weights and the memory afterwards; the gradient is not zero."""
