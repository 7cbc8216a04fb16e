"""Twin of `MeanWinner`: the mean direction of all winners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp

from duelrank.inference import MeanWinner
from duelrank.kernels.inference import MARGIN
from duelrank.lockstep.draws import Draws
from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State

__all__ = ["InferenceTwin", "MeanWinnerTwin", "maybe_unit", "weighted_mean"]

Array = Any


class InferenceTwin(Twin, ABC):
    """The twin of an inference that remembers nothing and needs the credit only."""

    def start(self, length: int) -> Memory:
        """Return the memory before the first impression."""
        return ()

    def infer(
        self,
        numbers: Numbers,
        delta: Array,
        state: State,
        query: Query,
        shown: Shown,
        directions: Array,
        credit: Array,
        clicked: Clicked,
        draws: Draws,
    ) -> tuple[Array, Memory]:
        """Return the gradient and the memory."""
        return self.combine(numbers, directions, credit[1:] - credit[0]), state.memory

    @abstractmethod
    def combine(self, numbers: Numbers, directions: Array, margin: Array) -> Array:
        """Return the gradient from how much more credit each candidate has than the current ranker."""


@twin(MeanWinner)
class MeanWinnerTwin(InferenceTwin):
    """All winners count alike."""

    def combine(self, numbers: Numbers, directions: Array, margin: Array) -> Array:
        """Return the mean winning direction."""
        return maybe_unit(weighted_mean(directions, (margin > MARGIN).astype(directions.dtype)), numbers["unit"])


def weighted_mean(directions: Array, weights: Array) -> Array:
    """Return the mean of the rows; the sizes of the weights are scaled to sum to 1. Zero where all are zero."""
    size = jnp.sum(jnp.abs(weights))
    total = jnp.sum(directions * weights[:, None], axis=0)
    return total / jnp.where(size > 0.0, size, 1.0)


def maybe_unit(vector: Array, unit: Array) -> Array:
    """Return the vector, scaled to length 1 if asked to; zero stays."""
    length = jnp.sqrt(jnp.sum(vector * vector))
    return vector / jnp.where((unit > 0.0) & (length > 0.0), length, 1.0)
