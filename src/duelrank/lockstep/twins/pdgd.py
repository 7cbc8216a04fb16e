"""Twin of `PDGD`: Plackett-Luce lists, and pairwise gradients weighted by what the order of the list has to do with the clicks."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from duelrank.algorithms import PDGD
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import best_first, scores_of
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.dueling_bandit import AlgorithmTwin
from duelrank.lockstep.values import Clicked, Memory, Numbers, Query, Shown, State

__all__ = ["PDGDTwin", "pair_gradient"]

Array = Any


@twin(PDGD)
class PDGDTwin(AlgorithmTwin):
    """The list is made of the documents that arrive first, so no position waits for another."""

    ignored: ClassVar[tuple[str, ...]] = ("observed",)
    step: Any

    def memory(self, numbers: Numbers, n_features: int, length: int, real: Any) -> Memory:
        """Return the memory of the step."""
        return self.step.start(n_features, real)

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Draw a list from the Plackett-Luce model; the trace has the scores."""
        scores = scores_of(state.weights[None], query.features, query.present)[0]
        keys = scores - draws.log_exponential(Purpose.RACE, scores.shape)
        order = jnp.arange(scores.shape[0], dtype=jnp.uint32)
        return Shown(best_first(keys, order)[: query.places.shape[0]], scores)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the weighted sum over all preferences."""
        scores = shown.trace.astype(jnp.float64)
        coefficients = pair_gradient(scores, shown.ranking, query.places, query.present, clicked)
        rows = query.features[shown.ranking].astype(jnp.float64)
        return jnp.sum(rows * coefficients[:, None], axis=0).astype(query.features.dtype), state.memory

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        weights, memory = self.step.move(numbers["step"], state, gradient)
        return weights, memory


def pair_gradient(scores: Array, ranking: Array, places: Array, present: Array, clicked: Clicked) -> Array:
    """Return the coefficient of each shown document in the gradient Σ ρ ∇P(clicked ≻ unclicked).

    The pairs are those of a clicked and an unclicked document down to one below the last click; ρ is the share of the list with the
    two swapped. What was left to draw from is added up from the end, as logarithms.
    """
    length = ranking.shape[0]
    position = jnp.arange(length)
    shown = jnp.where(places, scores[ranking], -jnp.inf)
    unshown = present & ~jnp.any((jnp.arange(scores.shape[0])[:, None] == ranking) & places, axis=1)
    masses = _log_masses(jnp.where(unshown, scores, -jnp.inf), shown)
    upper, lower = shown[:, None], shown[None, :]
    # Rows are the upper documents, columns the lower ones: the mass if the upper one stood at the lower position.
    swapped = jnp.broadcast_to(jnp.logaddexp(upper, masses[None, 1:]), (length, length))
    gap = jnp.zeros((length, length))
    for q in range(length - 1, 0, -1):
        inside = (position[:, None] < q) & (q <= position[None, :])
        gap = gap + jnp.where(inside, swapped - masses[q], 0.0)
        swapped = jnp.where(inside, jnp.logaddexp(swapped, shown[q - 1]), swapped)
    seen = (position < jnp.minimum(clicked.last + 1, length)) & places & (clicked.last > 0)
    pairs = seen[:, None] & seen[None, :] & (position[:, None] < position[None, :])
    pairs = pairs & (clicked.clicks[:, None] != clicked.clicks[None, :])
    decay = jnp.exp(-jnp.abs(jnp.where(pairs, upper - lower, 0.0)))
    slope = decay / (1.0 + decay) ** 2 / (1.0 + jnp.exp(jnp.where(pairs, gap, 0.0)))
    signed = jnp.where(pairs, jnp.where(clicked.clicks[:, None], slope, -slope), 0.0)
    return jnp.sum(signed, axis=1) - jnp.sum(signed, axis=0)


def _log_masses(unshown: Array, shown: Array) -> Array:
    """Return log Σ exp(score) of what was left before each position; the last entry is of what was never shown."""
    highest = jnp.max(unshown)
    safe = jnp.where(jnp.isfinite(highest), highest, 0.0)
    masses = [safe + jnp.log(jnp.sum(jnp.exp(unshown - safe)))]
    for position in range(shown.shape[0] - 1, -1, -1):
        masses.append(jnp.logaddexp(masses[-1], shown[position]))
    return jnp.stack(masses[::-1])
