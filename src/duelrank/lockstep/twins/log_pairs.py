"""Twin of `LogPairs`: pairwise logistic regression on what was clicked and what was seen and not clicked."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from duelrank.algorithms import LogPairs
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import best_first, scores_of
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.dueling_bandit import AlgorithmTwin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State

__all__ = ["LogPairsTwin", "skip_gradient"]

Array = Any


class LogMemory(NamedTuple):
    """What the parts remember."""

    examination: Memory
    step: Memory


@twin(LogPairs)
class LogPairsTwin(AlgorithmTwin):
    """Clicks all weigh the same here, so a pair counts by how surely its unclicked document was seen."""

    examination: Any
    step: Any

    def memory(self, numbers: Numbers, n_features: int, length: int, real: Any) -> LogMemory:
        """Return the memories of the parts."""
        examined = self.examination.start(numbers["examination"], n_features)
        return LogMemory(examined, self.step.start(n_features, real))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Return the best list; equal documents are in a random order."""
        scores = scores_of(state.weights[None], query.features, query.present)[0]
        best = best_first(scores, draws.order(Purpose.TIES, scores.shape))
        return Shown(best[: query.places.shape[0]], None)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the mean over the pairs of the list, and what is known of its users now."""
        own = state.memory.examination
        seen, known = self.examination.examine(numbers["examination"], own, query, shown, clicked)
        rows = query.features[shown.ranking].astype(jnp.float64)
        gradient = skip_gradient(state.weights.astype(jnp.float64), rows, clicked.clicks, seen)
        return gradient.astype(query.features.dtype), state.memory._replace(examination=known)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        weights, stepped = self.step.move(numbers["step"], state._replace(memory=state.memory.step), gradient)
        return weights, state.memory._replace(step=stepped)


def skip_gradient(weights: Array, rows: Array, clicks: Array, seen: Array) -> Array:
    """Return the mean of ∇ log P(i ≻ j) over all pairs of a clicked and an unclicked row, weighted by P(j was seen)."""
    scores = jnp.sum(rows * weights, axis=1)
    counts = jnp.where(clicks[:, None] & ~clicks[None, :], seen[None, :], 0.0)
    gap = scores[:, None] - scores[None, :]
    decay = jnp.exp(-jnp.abs(gap))
    slope = counts * jnp.where(gap > 0.0, decay, 1.0) / (1.0 + decay)
    pairs = jnp.sum(counts)
    coefficients = (jnp.sum(slope, axis=1) - jnp.sum(slope, axis=0)) / jnp.where(pairs > 0.0, pairs, 1.0)
    return jnp.sum(rows * coefficients[:, None], axis=0)
