"""Steps along a moving average of the gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.memory import replaced
from duelrank.registry import Between, register
from duelrank.types import Gradient, Memory, State, Weights
from duelrank.updates.base import Update
from duelrank.updates.step import Step

__all__ = ["Momentum"]


@register
@dataclass(frozen=True, repr=False)
class Momentum(Update):
    """v ← β · v + (1 − β) · gradient; then a step along v: averaging over impressions reduces noise.

    Only impressions with a gradient count: without a winner there is no gradient to average.

    Parameters
    ----------
    momentum
        β: the weight of the earlier gradients; 0 is the plain step.
    step
        The step along v.

    References
    ----------
    Polyak, "Some methods of speeding up the convergence of iteration methods" (1964).

    Examples
    --------
    Three gradients agree and the fourth contradicts them; the weight goes on rising, only more slowly:

    >>> import numpy as np
    >>> from duelrank import State
    >>> from duelrank.updates import Momentum, Step
    >>> momentum, state = Momentum(0.9, Step(learning_rate=1.0)), State(np.zeros(1))
    >>> for gradient in (1.0, 1.0, 1.0, -1.0):
    ...     weights, memory = momentum.move(state, np.array([gradient]))
    ...     state = State(weights, memory=memory)
    ...     print(weights.round(2).tolist())
    [0.1]
    [0.29]
    [0.56]
    [0.7]
    """

    momentum: Annotated[float, Between(0.0, 0.999999, tuned=(0.0, 0.99))] = 0.9
    step: Update = Step()

    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the weights after a step along the average, and the average."""
        velocity = state.memory.get("velocity")
        average = (1.0 - self.momentum) * gradient
        if velocity is not None:
            average += self.momentum * velocity
        weights, memory = self.step.move(state.of("step"), average)
        return weights, {**replaced(state.memory, "step", memory), "velocity": average}
