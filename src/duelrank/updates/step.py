"""Steps along the gradient, with an optionally decreasing learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import updates as kernel
from duelrank.kernels.elementary import power
from duelrank.registry import Between, register
from duelrank.types import Gradient, Memory, State, Weights
from duelrank.updates.base import Update

__all__ = ["Step"]


@register
@dataclass(frozen=True, repr=False)
class Step(Update):
    """w ← w + α · gradient, with α = learning_rate · decay^(updates so far) / √(1 + impressions so far / slow_down).

    Parameters
    ----------
    learning_rate
        The papers' α.
    decay
        Factor on α after each update.
    slow_down
        Number of impressions after which α is divided by √2; it continues to decrease. None: α does not depend on impressions.

    Examples
    --------
    The same gradient, at first and after 300 lists:

    >>> import numpy as np
    >>> from duelrank import State
    >>> from duelrank.updates import Step
    >>> step = Step(learning_rate=0.5, slow_down=100)
    >>> states = State(np.zeros(2)), State(np.zeros(2), step=300)
    >>> [step.move(state, np.array([1.0, -1.0]))[0].tolist() for state in states]
    [[0.5, -0.5], [0.25, -0.25]]
    """

    learning_rate: Annotated[float, Between(0.0, 1e6, tuned=(1e-3, 10.0), log=True)] = 0.01
    decay: Annotated[float, Between(0.0, 1.0)] = 1.0
    slow_down: Annotated[float, Between(1e-6, tuned=(1.0, 1e5), log=True)] | None = None

    def rate(self, state: State) -> float:
        """Return α at a state."""
        rate = self.learning_rate * (1.0 if self.decay == 1.0 else power(self.decay, float(state.updates)))
        return rate if self.slow_down is None else rate / math.sqrt(1.0 + state.step / self.slow_down)

    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return w + α · gradient."""
        weights: Weights = kernel.moved(state.weights, gradient, self.rate(state))
        return weights, state.memory
