"""Assumes that the whole list was examined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.projection.base import Examination
from duelrank.registry import register
from duelrank.types import Feedback, Impression, Memory

__all__ = ["WholeList"]


@register
@dataclass(frozen=True, repr=False)
class WholeList(Examination):
    """Every shown position was examined."""

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 for every position."""
        return np.ones(feedback.clicks.shape[0])
