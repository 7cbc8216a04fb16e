"""Defines the interface of update rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Gradient, Memory, State, Weights

__all__ = ["Update"]


@dataclass(frozen=True, repr=False)
class Update(Part, ABC):
    """Update the weights along a gradient; an update rule may have a memory, such as of earlier updates.

    ``state.memory`` is the memory of this part only, and so is the memory that `move` returns.
    """

    kind: ClassVar[str] = "update"

    def allowed(self, weights: Weights) -> Weights:
        """Return the nearest weights that this rule would ever lead to; all are, where it has no bounds."""
        return weights

    @abstractmethod
    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the new weights and the new memory; the gradient is not zero."""
