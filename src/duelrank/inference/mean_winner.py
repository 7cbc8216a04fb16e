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

    Examples
    --------
    Three candidates were compared with the current ranker, whose credit comes first; two of them have more:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import MeanWinner
    >>> from duelrank.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])}
    >>> shown = Impression(Query("shoes", [[0.5, 0.5]]), np.array([0]), tried)
    >>> credit, draws = np.array([1.0, 2.0, 3.0, 0.0]), stream(1, "infer")
    >>> MeanWinner().infer(State(np.zeros(2)), shown, Feedback([True]), credit, 1.0, draws)[0].tolist()
    [0.5, 0.5]
    """

    unit: bool = False

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the mean winning direction."""
        chosen = kernel.winners(credit)
        return kernel.mean_direction(impression.trace["directions"], chosen, self.unit), state.memory
