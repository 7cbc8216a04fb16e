"""What every way of moving the weights does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Gradient, State, Weights

__all__ = ["Update"]


@dataclass(frozen=True, repr=False)
class Update(Part, ABC):
    """Move the weights along a gradient."""

    kind: ClassVar[str] = "update"

    @abstractmethod
    def move(self, state: State, gradient: Gradient) -> Weights:
        """Return the new weights; the gradient is not zero."""
