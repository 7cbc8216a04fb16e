"""Twins of representations: the columns of documents, and learned knots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from duelrank.lockstep.draws import Draws, Purpose
from duelrank.lockstep.ranking import Scores, linear_scores
from duelrank.lockstep.twin import Array, DType, Memory, Numbers, Query, Shape, Sizes, Twin, twin, usable
from duelrank.representation import BentLines, Chain, Fixed, QueryRanks, QueryScaled, Ramps, Raw
from duelrank.representation.curves import EVERY, FIRST, HORIZON, OFF, Knotted

Count: TypeAlias = int | Array

_COLUMNS = 200_000_000  # most columns of documents to compute at a time


class RepresentationTwin(Twin):
    """The twin of a representation; columns are in rows, (columns of a feature, features)."""

    @property
    def scores(self) -> Scores:
        """The function that scores documents, from the result of `scored`; twins that share it share a program."""
        return linear_scores

    def each(self, lists: Count) -> Count:
        """Return the number of columns of each feature after a number of lists."""
        return 1

    def start(self, columns: Array, real: DType) -> Memory:
        """Return the memory before the first document."""
        return ()

    def apply(self, numbers: Numbers, features: Array, memory: Memory) -> Array:
        """Return the columns of documents, (…, columns of a feature, features)."""
        return features[..., None, :]

    def kept(self, weights: Array, memory: Memory) -> Any:
        """Return the data that a checkpoint keeps."""
        return weights

    def scored(self, numbers: Numbers, kept: Any) -> Any:
        """Return the input of `scores` for all checkpoints of all runs, (checkpoints, runs, …)."""
        return kept

    def trajectory(self, kept: Any) -> Array:
        """Return the weights at all checkpoints, converted to the last columns."""
        return kept


@twin(QueryScaled, QueryRanks, Raw, Fixed)
class FixedTwin(RepresentationTwin):
    """Does nothing: these representations were applied to the table."""

    @property
    def shape(self) -> Shape:
        """The same shape for all."""
        return ("Fixed",)

    def numbers(self) -> Numbers:
        """Return no numbers."""
        return {}


@twin(Chain)
class ChainTwin(Twin):
    """Applies only the second representation: the first one was applied to the table."""

    ignored: ClassVar[tuple[str, ...]] = ("first",)
    then: RepresentationTwin

    @property
    def shape(self) -> Shape:
        """The shape of the second one."""
        return self.then.shape

    def numbers(self) -> Numbers:
        """Return the numbers of the second one."""
        return self.then.numbers()


class Seen(NamedTuple):
    """The memory of knots.

    Parameters
    ----------
    knots
        (knots, features), ascending.
    rows
        (sample,) the rows of the sample in the table, −1 for none.
    count
        Number of documents seen, at most `HORIZON`.
    """

    knots: Array
    rows: Array
    count: Array


class Kept(NamedTuple):
    """Weights and their knots."""

    weights: Array
    knots: Array


def curve_scores(curves: tuple[Array, Array], features: Array) -> Array:
    """Return the score of each document by each row of curves, from knots and rises, (rows, documents).

    Each row has its own columns, so rows are evaluated in batches that fit in memory.
    """

    def of_one(curve: tuple[Array, Array]) -> Array:
        knots, rises = curve
        return jnp.sum(climbed(features, knots) * rises, axis=(-2, -1))

    some = min(_COLUMNS, usable() // 16) // (features.size * curves[1].shape[1])
    return lax.map(of_one, curves, batch_size=1 << max(0, some.bit_length() - 1))


class KnottedTwin(RepresentationTwin, ABC):
    """The twin of `Knotted`: a sample of documents, remembered by their rows in the table, and knots.

    All values are from 0 to 1. The number of pieces depends only on the number of lists, so it is the same in all runs of a batch.
    If there are fewer pieces than columns, the last knot, 1, is repeated: a piece without width has a column of zeros.
    """

    shaping: ClassVar[tuple[str, ...]] = ("pieces", "sample")

    @property
    def scores(self) -> Scores:
        """The function that scores documents by curves."""
        return curve_scores

    def pieces(self, lists: Count) -> Count:
        """Return the number of pieces of each feature after a number of lists."""
        assert isinstance(self.part, Knotted)
        found, before = 1, 1
        for power in range(FIRST.bit_length() - 1, 31):  # pieces are halved only after these numbers of lists
            after = self.part._n_pieces(before, 1 << power)
            found, before = found + (lists >= 1 << power) * (after - before), after
        return found

    @abstractmethod
    def n_knots(self, n_each: int) -> int:
        """Return the number of knots for a number of columns per feature."""

    @abstractmethod
    def rises(self, numbers: Numbers, weights: Array, knots: Array) -> Array:
        """Return the rise of each curve on each piece, (pieces, features)."""

    def room(self, sizes: Sizes) -> int:
        """Return the bytes of a check of knots: six copies of the sample, in double precision."""
        return super().room(sizes) + 48 * sizes.columns * int(self.shaped("sample"))

    def start(self, columns: Array, real: DType) -> Seen:
        """Return one piece from 0 to 1, and an empty sample."""
        n_each, n_features = columns.shape
        knots = jnp.ones((self.n_knots(n_each), n_features), real).at[0].set(0.0)
        return Seen(knots, jnp.full(self.shaped("sample"), -1, jnp.int32), jnp.int32(0))

    def observe(self, memory: Seen, query: Query, draws: Draws) -> Seen:
        """Add some of the documents to the sample."""
        size, widest = memory.rows.shape[0], query.present.shape[0]
        taken = slots(memory.count, query.size, size, widest, draws)
        rows = sampled(memory.rows, query.start, taken)
        return Seen(memory.knots, rows, jnp.minimum(memory.count + query.size, HORIZON))

    def checked(self, memory: Seen, table: Array, lists: Array) -> tuple[Seen, Array]:
        """Return the memory with the knots for the sample, and whether they have moved."""
        n_before, n_after = self.pieces(lists - 1), self.pieces(lists)
        there = memory.rows >= 0
        values = table[jnp.maximum(memory.rows, 0)].astype(jnp.float32).astype(jnp.float64)
        values = jnp.where(there[:, None], values, 0.0)  # 0 is always among the values
        knots = moved(memory.knots.astype(jnp.float64), values, n_before, n_after, jnp.all(there))
        knots = knots.astype(memory.knots.dtype)
        return memory._replace(knots=knots), (n_before != n_after) | jnp.any(knots != memory.knots)

    def kept(self, weights: Array, memory: Memory) -> Kept:
        """Return weights and knots."""
        return Kept(weights, memory.knots)

    def scored(self, numbers: Numbers, kept: Kept) -> tuple[Array, Array]:
        """Return the knots and the rises of each curve."""
        rows = kept.weights.reshape(*kept.weights.shape[:-1], -1, kept.knots.shape[-1])
        of_runs = jax.vmap(jax.vmap(self.rises), in_axes=(None, 0, 0))
        return kept.knots, of_runs(numbers, rows, kept.knots)

    def trajectory(self, kept: Kept) -> Array:
        """Return the same curves over the last knots."""
        return _carried_all(kept.weights, kept.knots, kept.knots[-1])


def is_due(lists: Array) -> Array:
    """Return whether knots are checked after a number of lists."""
    return (lists % EVERY == 0) | ((lists >= FIRST) & (lists < EVERY) & (lists & (lists - 1) == 0))


def climbed(features: Array, knots: Array) -> Array:
    """Return ramps from 0 to 1 over each piece between two knots, (…, pieces, features)."""
    width = knots[1:] - knots[:-1]
    climbs = width > jnp.finfo(knots.dtype).tiny * 4.0  # else the slope would overflow
    slopes = jnp.where(climbs, 1.0 / jnp.where(climbs, width, 1.0), 0.0)
    return jnp.clip((features[..., None, :] - knots[:-1]) * slopes, 0.0, 1.0)


def carried(weights: Array, before: Array, after: Array) -> Array:
    """Return the weights of all columns for other knots, in double precision: lines stay, and ramps are converted.

    If a feature has one more column than pieces, its first column is a line. The new ramps have the heights of the old ones at the
    new knots.
    """
    old, new = before.astype(jnp.float64), after.astype(jnp.float64)
    rows = weights.astype(jnp.float64).reshape(-1, old.shape[1])
    n_lines = len(rows) - (len(old) - 1)
    heights = jnp.sum(climbed(new, old) * rows[n_lines:], axis=1)
    found = jnp.concatenate((rows[:n_lines], heights[1:] - heights[:-1]))
    return found.reshape(-1).astype(weights.dtype)


_carried_all = jax.jit(jax.vmap(jax.vmap(carried), in_axes=(0, 0, None)))


def slots(count: Array, n_documents: Array, size: int, widest: int, draws: Draws) -> Array:
    """Draw the slot of the sample for each new document; ``size`` or more: none.

    The n-th document gets a random one of n slots, so it is in the sample with probability size / n.
    """
    place = jnp.arange(widest, dtype=jnp.int32)
    n_seen = jnp.minimum(count + place + 1, HORIZON)
    drawn = draws.below(Purpose.SAMPLE, n_seen, (widest,))
    return jnp.where(place < n_documents, jnp.where(n_seen <= size, n_seen - 1, drawn), size)


def sampled(rows: Array, first: Array, taken: Array) -> Array:
    """Return the sample with some of the documents from row ``first`` on; of two for one slot, the later is kept."""
    places = jnp.arange(taken.shape[0], dtype=jnp.int32)
    newest = jnp.full(rows.shape[0], -1, jnp.int32).at[taken].max(places, mode="drop")
    return jnp.where(newest >= 0, first + newest, rows)


def moved(knots: Array, values: Array, n_before: Array, n_after: Array, full: Array) -> Array:
    """Return the knots for a sample, as `duelrank.representation.curves.moved` does for values from 0 to 1.

    Parameters
    ----------
    knots
        (knots, features) the current knots.
    values
        (n, features) the documents in the sample.
    n_before, n_after
        The current and the new number of pieces per feature: the same, twice as many, or the maximum of the recipe.
    full
        Whether the sample is large enough to move existing knots.
    """
    found, n_found = _different(values)
    number = jnp.arange(len(found))[:, None]
    places = jnp.where(number < n_found, _even(number, n_found - 1), jnp.inf)
    target = jnp.broadcast_to(_even(jnp.arange(len(knots))[:, None], n_after), knots.shape)
    fresh = _interpolated(target, places, found, n_found)
    off = jnp.max(jnp.abs(_interpolated(knots, found, places, n_found) - target), axis=0)
    stays = (n_after == n_before) & (~full | (off <= OFF))
    return jnp.where(n_after == 2 * n_before, _split(knots, found), jnp.where(stays, knots, fresh))


def _different(values: Array) -> tuple[Array, Array]:
    """Return the distinct values of each feature, ascending, with 0 and 1, padded with infinity; and their number."""
    ends = jnp.broadcast_to(jnp.array([[0.0], [1.0]]), (2, values.shape[1]))
    ordered = jnp.sort(jnp.concatenate((values, ends)), axis=0)
    new = jnp.concatenate((jnp.ones((1, values.shape[1]), bool), ordered[1:] != ordered[:-1]))
    return jnp.sort(jnp.where(new, ordered, jnp.inf), axis=0), jnp.sum(new, axis=0)


def _even(number: Array, n: Array) -> Array:
    """Return number / n, rounded as `numpy.linspace` does, and 1 from n on."""
    return jnp.where(number < n, number * (1.0 / n), 1.0)


def _interpolated(at: Array, xs: Array, ys: Array, n: Array) -> Array:
    """Interpolate column by column between the first n points; all others have an infinite x."""
    left = jnp.sum(xs[None] <= at[:, None], axis=1) - 1
    right = jnp.minimum(left + 1, n - 1)
    x, y = jnp.take_along_axis(xs, left, axis=0), jnp.take_along_axis(ys, left, axis=0)
    width = jnp.take_along_axis(xs, right, axis=0) - x
    slope = (jnp.take_along_axis(ys, right, axis=0) - y) / jnp.where(width > 0.0, width, 1.0)
    return slope * (at - x) + y


def _split(knots: Array, found: Array) -> Array:
    """Halve each piece at the median of the distinct values within it; the number of knots stays, the last ones are dropped."""
    low, high = knots[:-1], knots[1:]
    first = jnp.sum(found[None] <= low[:, None], axis=1)
    n_inside = jnp.sum(found[None] < high[:, None], axis=1) - first
    take = partial(jnp.take_along_axis, found, axis=0)
    middle = 0.5 * (take(first + (n_inside - 1) // 2) + take(first + n_inside // 2))
    halves = jnp.where(n_inside > 0, middle, 0.5 * low + 0.5 * high)
    halves = jnp.concatenate((halves, knots[-1:]))
    return jnp.stack((knots, halves), axis=1).reshape(-1, knots.shape[1])[: len(knots)]


@twin(Ramps)
class RampsTwin(KnottedTwin):
    """Has one column for each piece."""

    def each(self, lists: Count) -> Count:
        """Return the number of pieces."""
        return self.pieces(lists)

    def n_knots(self, n_each: int) -> int:
        """Return the number of pieces plus one."""
        return n_each + 1

    def apply(self, numbers: Numbers, features: Array, memory: Seen) -> Array:
        """Return the ramps."""
        return climbed(features, memory.knots)

    def rises(self, numbers: Numbers, weights: Array, knots: Array) -> Array:
        """Return the weights."""
        return weights


@twin(BentLines)
class BentLinesTwin(KnottedTwin):
    """Has the value itself as the line, because all values are from 0 to 1, and ramps if there are two or more pieces."""

    def each(self, lists: Count) -> Count:
        """Return one for the line, and one for each of two or more pieces."""
        n_pieces = self.pieces(lists)
        return 1 + n_pieces * (n_pieces > 1)

    def n_knots(self, n_each: int) -> int:
        """Return the number of pieces plus one."""
        return max(2, n_each)

    def apply(self, numbers: Numbers, features: Array, memory: Seen) -> Array:
        """Return the line, and ramps of the height ``bend``; the caller masks columns that do not exist yet."""
        line = features[..., None, :]
        if len(memory.knots) == 2:
            return line
        bend = numbers["bend"].astype(features.dtype)
        return jnp.concatenate((line, bend * climbed(features, memory.knots)), axis=-2)

    def rises(self, numbers: Numbers, weights: Array, knots: Array) -> Array:
        """Return the rises of the line and of the ramps."""
        line = weights[:1] * (knots[1:] - knots[:-1])
        return line if len(knots) == 2 else line + numbers["bend"].astype(weights.dtype) * weights[1:]
