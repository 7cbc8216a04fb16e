"""Twins of updates."""

from __future__ import annotations

import jax.numpy as jnp

from duelrank.lockstep.twin import Array, DType, Memory, Numbers, State, Twin, twin
from duelrank.updates import Step


@twin(Step)
class StepTwin(Twin):
    """Represents a ``slow_down`` of None by infinity, so that the rate does not depend on impressions."""

    def start(self, n_features: int, real: DType) -> Memory:
        """Return the memory before the first impression."""
        return ()

    def move(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Return w + α · gradient."""
        updates, step = state.updates.astype(jnp.float64), state.step.astype(jnp.float64)
        rate = numbers["learning_rate"] * numbers["decay"] ** updates / jnp.sqrt(1.0 + step / numbers["slow_down"])
        return state.weights + rate.astype(gradient.dtype) * gradient, state.memory
