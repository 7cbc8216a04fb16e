"""Defines the interfaces of examination models and projections."""

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
    """Estimate which shown positions the user has examined."""

    kind: ClassVar[str] = "examination"

    @abstractmethod
    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return a weight in [0, 1] per shown position: the probability that it was examined."""

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Return the memory after an impression, with or without clicks; by default it does not change."""
        return memory


@dataclass(frozen=True, repr=False)
class Projection(Part, ABC):
    """Project a gradient onto the directions that an impression has tested."""

    kind: ClassVar[str] = "projection"

    @abstractmethod
    def project(
        self, gradient: Gradient, memory: Memory, impression: Impression, feedback: Feedback
    ) -> tuple[Gradient, Memory]:
        """Return the projected gradient and the new memory."""

    def examined(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.bool_] | None:
        """Return which shown positions are taken as examined, None for a projection that does not ask."""
        return None


def top(depth: int, length: int) -> NDArray[np.float64]:
    """Return the weights of a user who examined only the first positions."""
    weights = np.zeros(length)
    weights[:depth] = 1.0
    return weights
