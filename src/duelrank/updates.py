"""Stage 7: updates the weights along the gradient."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from duelrank.core.memory import replaced
from duelrank.core.registry import Between, Part, register
from duelrank.core.types import Gradient, Memory, State, Weights, frozen
from duelrank.kernels import updates as kernel
from duelrank.kernels.elementary import power


@dataclass(frozen=True, repr=False)
class Update(Part, ABC):
    """Update the weights along a gradient; an update rule may have a memory, such as of earlier updates.

    ``state.memory`` is the memory of this part only, and so is the memory that `move` returns.
    """

    kind: ClassVar[str] = "update"
    learning_only: ClassVar[tuple[str, ...]] = ("*",)

    def allowed(self, weights: Weights) -> Weights:
        """Return the nearest weights that this rule can lead to; the weights themselves for a rule without bounds."""
        return weights

    @abstractmethod
    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the new weights and the new memory; the gradient is not zero."""


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
    Three gradients agree and the fourth contradicts them; the weight continues to rise, but more slowly:

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


@register
@dataclass(frozen=True, repr=False)
class NonNegative(Update):
    """Move, then set weights below 0 to 0: the nearest non-negative weights.

    Engines for hybrid search accept only such weights. The weight of a score that clicks contradict becomes 0, and grows again when
    clicks support it.

    Parameters
    ----------
    step
        The step before weights are cut.

    Examples
    --------
    The gradient is against the first of two scores; its weight ends at 0, not below:

    >>> import numpy as np
    >>> from duelrank import State
    >>> from duelrank.updates import NonNegative, Step
    >>> weights, _ = NonNegative(Step(0.5)).move(State(np.array([0.2, 0.2])), np.array([-1.0, 1.0]))
    >>> weights.tolist()
    [0.0, 0.7]
    """

    step: Update = Step()

    def allowed(self, weights: Weights) -> Weights:
        """Return the weights that the step allows, with 0 for those below 0."""
        return frozen(np.maximum(self.step.allowed(weights), 0.0))

    def move(self, state: State, gradient: Gradient) -> tuple[Weights, Memory]:
        """Return the weights after the step, with 0 for those below 0, and the memory of the step."""
        weights, memory = self.step.move(state.of("step"), gradient)
        return self.allowed(weights), replaced(state.memory, "step", memory)
