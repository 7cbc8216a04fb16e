"""What every examination model and every projection does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.registry import Part
from duelrank.types import Feedback, Gradient, Impression, Memory

__all__ = ["Examination", "Projection"]


@dataclass(frozen=True, repr=False)
class Examination(Part, ABC):
    """Say which shown positions the user has looked at."""

    kind: ClassVar[str] = "examination"

    @abstractmethod
    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return a weight in [0, 1] per shown position: how likely it was seen; 0 where it surely was not."""

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Return the memory after an impression, clicked or not; by default nothing is learned about users."""
        return memory


@dataclass(frozen=True, repr=False)
class Projection(Part, ABC):
    """Keep the part of a gradient that an impression has really tested."""

    kind: ClassVar[str] = "projection"

    @abstractmethod
    def project(
        self, gradient: Gradient, memory: Memory, impression: Impression, feedback: Feedback
    ) -> tuple[Gradient, Memory]:
        """Return the projected gradient and the memory afterwards."""


def top(depth: int, length: int) -> NDArray[np.float64]:
    """Weights of a user who looked at the first positions only."""
    weights = np.zeros(length)
    weights[:depth] = 1.0
    return weights
