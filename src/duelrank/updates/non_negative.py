"""Keeps weights at 0 or above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from duelrank.memory import replaced
from duelrank.registry import register
from duelrank.types import Gradient, Memory, State, Weights, frozen
from duelrank.updates.base import Update
from duelrank.updates.step import Step

__all__ = ["NonNegative"]


@register
@dataclass(frozen=True, repr=False)
class NonNegative(Update):
    """Move, then set weights below 0 to 0: the nearest weights that an engine with non-negative ones can hold.

    For hybrid search, whose engines take no others: a score that clicks speak against is switched off, and comes back when they
    speak for it again.

    Parameters
    ----------
    step
        How far to move before.

    Examples
    --------
    Clicks speak against the first of two scores; its weight ends at 0, not below:

    >>> import numpy as np
    >>> from duelrank import State
    >>> from duelrank.updates import NonNegative, Step
    >>> weights, _ = NonNegative(Step(0.5)).move(State(np.array([0.2, 0.2])), np.array([-1.0, 1.0]))
    >>> weights.tolist()
    [0.0, 0.7]
    """

    step: Update = Step()

    def allowed(self, weights: Weights) -> Weights:
        """Return the weights that the step allows, those below 0 as 0."""
        return frozen(np.maximum(self.step.allowed(weights), 0.0))

    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the weights after the step, those below 0 as 0, and the memory of the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return self.allowed(weights), replaced(state.memory, "step", memory)
