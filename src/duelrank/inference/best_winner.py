"""Selects the direction of the clearest winner."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.inference.base import Inference
from duelrank.kernels import inference as kernel
from duelrank.registry import register
from duelrank.types import Credit, Feedback, Gradient, Impression, Memory, State, Stream

__all__ = ["BestWinner"]


@register
@dataclass(frozen=True, repr=False)
class BestWinner(Inference):
    """Take the direction with the most credit among those that beat the current ranker; the first one of a tie.

    References
    ----------
    Schuth et al., "Multileave gradient descent for fast online learning to rank" (WSDM 2016), as winner-takes-all.

    Examples
    --------
    The same comparison as in `MeanWinner`: of two winners, the second one has more credit.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query, State
    >>> from duelrank.inference import BestWinner
    >>> from duelrank.randomness import stream
    >>> tried = {"directions": np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])}
    >>> shown = Impression(Query("shoes", [[0.5, 0.5]]), np.array([0]), tried)
    >>> credit, draws = np.array([1.0, 2.0, 3.0, 0.0]), stream(1, "infer")
    >>> BestWinner().infer(State(np.zeros(2)), shown, Feedback([True]), credit, 1.0, draws)[0].tolist()
    [0.0, 1.0]
    """

    def infer(
        self, state: State, impression: Impression, feedback: Feedback, credit: Credit, delta: float, stream: Stream
    ) -> tuple[Gradient, Memory]:
        """Return the winning direction."""
        chosen = kernel.winners(credit)
        if chosen.size > 1:
            best = credit[1:][chosen].argmax()
            chosen = chosen[best : best + 1]
        return kernel.mean_direction(impression.trace["directions"], chosen, False), state.memory
