"""Twin of `PairRank`: certain pairs are ordered, uncertain ones are left to chance, and weights solve a small regression."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax

from duelrank.algorithms import PairRank, pairrank
from duelrank.kernels.pair_rank import LOOSE, NEAR, SWEEPS
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import best_first, ranks_of, scores_of
from duelrank.lockstep.twin import twin
from duelrank.lockstep.twins.document_space import solve
from duelrank.lockstep.twins.dueling_bandit import AlgorithmTwin
from duelrank.lockstep.values import RUNS, Clicked, Memory, Numbers, Query, Shown, Sizes, State

__all__ = ["PairRankTwin", "Pairs", "blocks", "certain_pairs", "fitted", "learned", "matched", "ridge_solution"]

Array = Any

_AT_ONCE = 4  # rounds of the solver before it asks whether all runs are done


class Pairs(NamedTuple):
    """All pairs so far: M⁻¹, the curvature of their loss, its target, and how many they are; all in double precision.

    Then the newest pairs, each in the slot that its number names, and their curvatures. Slots without a pair are zeros.
    """

    inverse: Array
    curvature: Array
    target: Array
    count: Array
    differences: Array
    bounds: Array


class PairMemory(NamedTuple):
    """The pairs, and what the parts remember."""

    pairs: Pairs
    examination: Memory
    step: Memory


@twin(PairRank)
class PairRankTwin(AlgorithmTwin):
    """Documents stay in their order: blocks follow from ranks, without sorting tables of pairs."""

    shaping: ClassVar[tuple[str, ...]] = ("loss",)
    examination: Any
    step: Any

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of tables of all pairs of documents, of features and of remembered pairs, before and after."""
        remembered = 3 * 8 * pairrank.REMEMBERED * sizes.columns
        return super().room(sizes) + 24 * sizes.widest**2 + 4 * 8 * sizes.columns**2 + remembered

    def memory(self, numbers: Numbers, n_features: int, length: int, real: Any) -> PairMemory:
        """Return the memory without pairs."""
        nothing = jnp.zeros((n_features, n_features), jnp.float64)
        newest = jnp.zeros((pairrank.REMEMBERED, n_features), real)
        inverse = jnp.eye(n_features) / numbers["regularisation"]
        pairs = Pairs(inverse, nothing, nothing[0], jnp.zeros(()), newest, jnp.zeros(len(newest), jnp.float64))
        examined = self.examination.start(numbers["examination"], n_features)
        return PairMemory(pairs, examined, self.step.start(n_features, real))

    def explore(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Shown:
        """Order the certain pairs, and shuffle the others."""
        scores = scores_of(state.weights[None], query.features, query.present)[0]
        inverse = state.memory.pairs.inverse.astype(scores.dtype)
        both = query.present[:, None] & query.present[None, :]
        certain = certain_pairs(scores, query.features, inverse, numbers["width"].astype(scores.dtype)) & both
        block = blocks(scores, certain, ~certain & both, numbers["transitive"] > 0.0)
        shuffled = best_first(jnp.where(query.present, -block, -jnp.inf), draws.order(Purpose.TIES, scores.shape))
        return Shown(shuffled[: query.places.shape[0]], None)

    def gradient(
        self, numbers: Numbers, state: State, query: Query, shown: Shown, clicked: Clicked, draws: Draws
    ) -> tuple[Array, Memory]:
        """Return the difference between the weights that fit all pairs, including the new ones, and the current weights."""
        memory, weights = state.memory, state.weights.astype(jnp.float64)
        seen, users = self.examination.examine(numbers["examination"], memory.examination, query, shown, clicked)
        chosen = matched(clicked.clicks, (seen > 0.0) & query.places, draws)
        differences = jnp.matmul(chosen, query.features[shown.ranking].astype(jnp.float64))
        pairs = learned(memory.pairs, weights, differences, jnp.any(chosen != 0.0, axis=1))
        mean = self.shaped("loss") == "mean"
        ridge = numbers["regularisation"] * (2.0 * pairs.count if mean else 1.0)
        tolerance = 1e-10 if state.weights.dtype == jnp.float64 else 1e-8
        new = pairs.count > memory.pairs.count
        fit, pairs = fitted(pairs, ridge, weights, new, tolerance, not mean)
        return (fit - weights).astype(state.weights.dtype), memory._replace(pairs=pairs, examination=users)

    def update(self, numbers: Numbers, state: State, gradient: Array) -> tuple[Array, Memory]:
        """Move by the step."""
        weights, stepped = self.step.move(numbers["step"], state._replace(memory=state.memory.step), gradient)
        return weights, state.memory._replace(step=stepped)


def certain_pairs(scores: Array, features: Array, inverse: Array, width: Array) -> Array:
    """Return whether the lower bound of P(i ≻ j) is over 1/2, (i, j).

    In single precision too: on MQ2008, after 3,000 impressions, that decided 8 of 255,766 pairs otherwise.
    """
    products = jnp.matmul(jnp.matmul(features, inverse, precision="highest"), features.T, precision="highest")
    norms = jnp.diagonal(products)
    squared_norm = norms[:, None] + norms[None, :] - 2.0 * products
    lead = scores[:, None] - scores[None, :]
    return 1.0 / (1.0 + jnp.exp(-lead)) - width * jnp.sqrt(jnp.maximum(squared_norm, 0.0)) > 0.5


def blocks(scores: Array, certain: Array, uncertain: Array, transitive: Array) -> Array:
    """Return the number of each document's block: the smallest blocks by score that leave no uncertain pair across a cut.

    With ``transitive``, a cut is allowed if chains of certain pairs lead from each document above it to each below it. No chain has
    to be followed: it is enough that each document above without a certain one between it and the cut is certainly better than each
    document below with none between the cut and it. All chains across the cut go through such a pair, and such a pair has no other.

    Parameters
    ----------
    scores
        −inf where there is no document.
    certain, uncertain
        (i, j): both documents are there, and i is certainly better than j or is not.
    """
    n = scores.shape[0]
    cut = jnp.arange(n)
    rank = ranks_of(scores, cut)
    next_below = jnp.min(jnp.where(certain & transitive, rank[None, :], n), axis=1)
    next_above = jnp.max(jnp.where(certain & transitive, rank[:, None], -1), axis=0)
    above = (rank < cut[:, None]) & (cut[:, None] <= next_below)
    below = (next_above < cut[:, None]) & (cut[:, None] <= rank)
    # Zeros and ones, and their sums, are exact in whatever a fast matrix product rounds to.
    doubts = jnp.matmul(below.astype(jnp.float32), uncertain.T.astype(jnp.float32))
    allowed = ~jnp.any(above & (doubts > 0.0), axis=1)
    return jnp.sum(allowed & (cut <= rank[:, None]), axis=1, dtype=jnp.int32)


def matched(clicks: Array, seen: Array, draws: Draws) -> Array:
    """Match clicked positions with seen but unclicked ones at random: a row per pair, 1 and −1 at its positions, or zeros."""
    order = draws.order(Purpose.PAIRS, clicks.shape)
    earlier = order[None, :] < order[:, None]
    losers = seen & ~clicks
    n_pairs = jnp.minimum(jnp.sum(clicks), jnp.sum(losers))
    pair = jnp.arange(clicks.shape[0] // 2)[:, None]
    found = [(jnp.sum(earlier & flags, axis=1) == pair) & flags & (pair < n_pairs) for flags in (clicks, losers)]
    return found[0].astype(jnp.float64) - found[1].astype(jnp.float64)


def learned(pairs: Pairs, weights: Array, differences: Array, real: Array) -> Pairs:
    """Add pairs to all that is known of them; rows of differences that are no pair are zeros, and the last ones.

    Of the pairs in whose slots they are put, the second-order expansion of their loss at the weights remains.
    """
    moved = jnp.matmul(differences, pairs.inverse)
    gram = jnp.eye(differences.shape[0]) + jnp.matmul(differences, moved.T)
    size = pairs.bounds.shape[0]
    slots = jnp.where(real, (pairs.count.astype(jnp.int32) + jnp.arange(len(real))) % size, size)
    old = pairs.differences.at[slots].get(mode="fill", fill_value=0.0).astype(jnp.float64)
    lead = jnp.sum(old * weights, axis=1)
    tilt = jnp.tanh(0.5 * lead)
    second = 0.25 * (1.0 - tilt * tilt)
    change = second - pairs.bounds.at[slots].get(mode="fill", fill_value=0.0)
    return Pairs(
        pairs.inverse - jnp.matmul(moved.T, solve(gram, moved, 0.0)),
        pairs.curvature + jnp.matmul((change[:, None] * old).T, old),
        pairs.target + jnp.sum((0.5 * (1.0 - tilt) + second * lead)[:, None] * old, axis=0),
        pairs.count + jnp.sum(real),
        pairs.differences.at[slots].set(differences.astype(pairs.differences.dtype), mode="drop"),
        pairs.bounds.at[slots].set(0.0, mode="drop"),
    )


def fitted(
    pairs: Pairs, ridge: Array, start: Array, new: Array, tolerance: float, conditioned: bool
) -> tuple[Array, Pairs]:
    """Fit the weights to all pairs, sweep by sweep, in runs with new ones; return them, and the pairs with the last curvatures."""
    rows = pairs.differences.astype(jnp.float64)

    def sweep(now: tuple[Array, ...]) -> tuple[Array, ...]:
        rounds, open_, weights, curvature, bounds = now
        lead = jnp.sum(rows * weights, axis=1)
        tilt, near = jnp.tanh(0.5 * lead), jnp.abs(lead) < 1e-6
        bound = jnp.where(near, 0.25, 0.5 * tilt / jnp.where(near, 1.0, lead))
        loose = open_ & ((bound > LOOSE * bounds) | (bounds > LOOSE * bound))
        tight = jnp.where(loose, bound, bounds)
        curvature = curvature + jnp.matmul(((tight - bounds)[:, None] * rows).T, rows)
        pull = pairs.target + jnp.sum((0.5 * (1.0 - tilt) + tight * lead)[:, None] * rows, axis=0)
        known = pairs._replace(curvature=curvature, target=pull)
        fit = jnp.where(open_, ridge_solution(known, ridge, weights, tolerance, conditioned), weights)
        open_ &= jnp.sum((fit - weights) ** 2) > NEAR * NEAR * jnp.sum(fit * fit)
        return rounds + 1, open_, fit, curvature, tight

    def moving(now: tuple[Array, ...]) -> Array:
        return (lax.pmax(now[1].astype(jnp.int32), RUNS) > 0) & (now[0] < SWEEPS)

    begun = (jnp.int32(0), new, start, pairs.curvature, pairs.bounds)
    _, _, fit, curvature, bounds = lax.while_loop(moving, sweep, begun)
    return fit, pairs._replace(curvature=curvature, bounds=bounds)


def ridge_solution(pairs: Pairs, ridge: Array, start: Array, tolerance: float, conditioned: bool) -> Array:
    """Solve (A + ridge · I) w = target by conjugate gradients, until the residual of every run is under tolerance · |target|.

    Parameters
    ----------
    conditioned
        Whether M⁻¹ helps: A has at most a quarter of each pair in M, so it does if the ridge is about λ, and not if it grows.
    """

    def image(vector: Array) -> Array:
        return jnp.sum(pairs.curvature * vector, axis=1) + ridge * vector

    def toward(residual: Array) -> Array:
        return jnp.sum(pairs.inverse * residual, axis=1) if conditioned else residual

    enough = tolerance * tolerance * jnp.sum(pairs.target * pairs.target)

    def advance(now: tuple[Array, ...]) -> tuple[Array, ...]:
        solution, residual, direction, slope = now
        moved = image(direction)
        open_ = jnp.sum(residual * residual) > enough
        rate = jnp.where(open_, slope / jnp.where(open_, jnp.sum(direction * moved), 1.0), 0.0)
        solution, residual = solution + rate * direction, residual - rate * moved
        steepest = toward(residual)
        after = jnp.sum(residual * steepest)
        direction = steepest + after / jnp.where(slope > 0.0, slope, 1.0) * direction
        return solution, residual, direction, after

    def unsolved(now: tuple[Array, ...]) -> Array:
        rounds, (_, residual, _, _) = now
        far = jnp.sum(residual * residual) > enough
        return (lax.pmax(far.astype(jnp.int32), RUNS) > 0) & (rounds < 2 * start.shape[0])

    def go_on(now: tuple[Array, ...]) -> tuple[Array, ...]:
        rounds, state = now
        for _ in range(_AT_ONCE):
            state = advance(state)
        return rounds + _AT_ONCE, state

    residual = pairs.target - image(start)
    steepest = toward(residual)
    begun = (start, residual, steepest, jnp.sum(residual * steepest))
    _, (solution, *_) = lax.while_loop(unsolved, go_on, (jnp.int32(0), begun))
    return solution
