"""Twins of exploration: candidate directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax

from duelrank.exploration import NullSpace, OppositePair, UniformSphere
from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.projection import solve
from duelrank.lockstep.twin import Array, Clicked, DType, Memory, Numbers, Query, Shown, Sizes, State, Twin, twin


class ExplorationTwin(Twin, ABC):
    """The twin of an exploration; by default without memory."""

    def start(self, n_features: int, real: DType) -> Memory:
        """Return the memory before the first impression."""
        return ()

    @abstractmethod
    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Array:
        """Return the candidate directions, one per row."""

    def observe(
        self, numbers: Numbers, state: State, shown: Shown, directions: Array, credit: Array, clicked: Clicked
    ) -> Memory:
        """Return the memory after a comparison."""
        return state.memory


@twin(UniformSphere)
class UniformSphereTwin(ExplorationTwin):
    """Draws normal numbers, scaled to length 1; features that the data set does not have stay 0."""

    shaping: ClassVar[tuple[str, ...]] = ("n_candidates",)

    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Array:
        """Draw n_candidates unit vectors."""
        shape = (self.shaped("n_candidates"), query.columns.shape[0])
        return unit_rows(draws.normal(Purpose.DIRECTIONS, shape) * query.columns)


def unit_rows(rows: Array) -> Array:
    """Scale each row to length 1; a row of zeros stays."""
    lengths = jnp.sqrt(jnp.sum(rows * rows, axis=-1, keepdims=True))
    return rows / jnp.where(lengths > 0.0, lengths, 1.0)


@twin(OppositePair)
class OppositePairTwin(ExplorationTwin):
    """Draws one direction u and its opposite."""

    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Array:
        """Draw u; return the rows u and −u."""
        drawn = unit_rows(draws.normal(Purpose.DIRECTIONS, (1, query.columns.shape[0])) * query.columns)
        return jnp.concatenate((drawn, -drawn))


class Losers(NamedTuple):
    """Directions that lost, the newest last, and their margins; an empty row has an infinite margin."""

    directions: Array
    margins: Array


@twin(NullSpace)
class NullSpaceTwin(ExplorationTwin):
    """Removes the avoided directions by a small system of equations instead of an orthonormal basis."""

    shaping: ClassVar[tuple[str, ...]] = ("n_candidates", "remembered_losers", "avoided")

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of the losers, before and after, and of the drawn and avoided directions, in double precision."""
        drawn, avoided = 2 * (int(self.shaped("n_candidates")) + 1), int(self.shaped("avoided"))
        lost = 12 * (int(self.shaped("remembered_losers")) + sizes.rankers) * sizes.columns
        return super().room(sizes) + lost + 24 * (drawn + avoided) * (sizes.columns + avoided)

    def start(self, n_features: int, real: DType) -> Losers:
        """Return an empty memory."""
        capacity = self.shaped("remembered_losers")
        return Losers(jnp.zeros((capacity, n_features), real), jnp.full(capacity, jnp.inf))

    def directions(self, numbers: Numbers, state: State, query: Query, draws: Draws) -> Array:
        """Draw 2 (n_candidates + 1) directions from the complement and keep n_candidates."""
        kept = self.shaped("n_candidates")
        drawn = draws.normal(Purpose.DIRECTIONS, (2 * (kept + 1), query.columns.shape[0])) * query.columns
        most = jnp.minimum(numbers["avoided"], jnp.sum(query.columns) - 1)
        avoided = worst(state.memory, most, self.shaped("avoided"))
        mean = jnp.sum(jnp.where(query.present[:, None], query.features, 0.0), axis=0)
        return complement_directions(avoided, drawn, mean, kept)

    def observe(
        self, numbers: Numbers, state: State, shown: Shown, directions: Array, credit: Array, clicked: Clicked
    ) -> Memory:
        """Remember the directions that lost; without a click none did."""
        return remember(state.memory, directions, credit, numbers["n_low"])


def worst(losers: Losers, most: Array, capacity: int) -> Array:
    """Return the rows with the smallest margins, of equal margins the newest; missing rows are zeros."""
    mine, theirs = losers.margins[:, None], losers.margins[None, :]
    number = jnp.arange(losers.margins.shape[0])
    newer = number[None, :] > number[:, None]
    rank = jnp.sum((theirs < mine) | ((theirs == mine) & newer), axis=1)
    counts = (rank < most) & jnp.isfinite(losers.margins)
    chosen = (rank == jnp.arange(capacity)[:, None]) & counts
    return jnp.matmul(chosen.astype(losers.directions.dtype), losers.directions, precision="highest")


def complement_directions(avoided: Array, drawn: Array, mean: Array, kept: int) -> Array:
    """Project drawn vectors onto the complement of the avoided ones; return the unit rows with the largest |u · mean|."""
    rows, vectors = avoided.astype(jnp.float64), drawn.astype(jnp.float64)
    tolerance = max(
        rows.shape[1] * float(jnp.finfo(jnp.float64).eps), (rows.shape[1] * float(jnp.finfo(avoided.dtype).eps)) ** 2
    )
    inside = solve(jnp.matmul(rows, rows.T), jnp.matmul(rows, vectors.T), tolerance)
    left = unit_rows(vectors - jnp.matmul(inside.T, rows))
    reach = jnp.abs(jnp.matmul(left, mean.astype(jnp.float64)))
    number = jnp.arange(reach.shape[0])
    ahead = (reach[None, :] > reach[:, None]) | (
        (reach[None, :] == reach[:, None]) & (number[None, :] < number[:, None])
    )
    return _compacted(left, jnp.sum(ahead, axis=1) < kept, kept).astype(drawn.dtype)


def remember(losers: Losers, directions: Array, credit: Array, n_low: Array) -> Losers:
    """Append the directions that lost, and keep the newest ones.

    A loser has less credit than the current ranker and no more than the n_low-th smallest of all rankers.
    """
    smaller = jnp.sum(credit[None, :] < credit[:, None], axis=1)
    lost = ((credit < credit[0]) & (smaller < n_low))[1:]
    margins = (credit - credit[0])[1:]
    rows = jnp.concatenate((losers.directions, _compacted(directions, lost, len(directions))))
    row_margins = jnp.concatenate((losers.margins, _compacted(margins[:, None], lost, len(directions))[:, 0]))
    first = jnp.sum(lost, dtype=jnp.int32)
    kept = lax.dynamic_slice(rows, (first, jnp.int32(0)), losers.directions.shape)
    return Losers(kept, lax.dynamic_slice(row_margins, (first,), losers.margins.shape))


def _compacted(rows: Array, chosen: Array, room: int) -> Array:
    """Move the chosen rows to the front, in their order."""
    place = jnp.cumsum(chosen) - 1
    found = (place == jnp.arange(room)[:, None]) & chosen
    return jnp.matmul(found.astype(rows.dtype), rows, precision="highest")
