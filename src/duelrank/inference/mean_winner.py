"""Averages the directions of all winners."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.inference.base import Inference
from duelrank.kernels import inference as kernel
from duelrank.registry import register
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["MeanWinner"]


@register
@dataclass(frozen=True, repr=False)
class MeanWinner(Inference):
    """Average the directions of all candidates that beat the current ranker.

    Parameters
    ----------
    unit
        Scale the mean to length 1. A mean of several unit vectors is short; this separates the effect of a longer step from
        that of a better direction.

    References
    ----------
    Schuth et al., "Multileave gradient descent for fast online learning to rank" (WSDM 2016).
    """

    unit: bool = False

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the mean winning direction."""
        chosen = kernel.winners(credit)
        return kernel.mean_direction(impression.trace["directions"], chosen, self.unit), state.memory
