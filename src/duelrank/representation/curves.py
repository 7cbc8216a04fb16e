"""Representations with learned knots on the axis of each feature: distributions, ramps, steps and bent lines; shown curves."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.registry import Between, alias, register
from duelrank.core.types import Features, Memory, Stream, Weights, frozen
from duelrank.kernels.representation import (
    NARROWEST,
    carry_line_and_ramps,
    is_within,
    line_and_ramp_heights,
    line_and_ramps,
    ramps,
    sample_slots,
    shares,
    steps,
)
from duelrank.representation.base import Curve, Domain, QueryScaled, Representation, by_feature, query_scaled, rows_of

Knots: TypeAlias = NDArray[np.float64]  # (n_features, n_knots), each row ascending; NaN before there are knots

#: Number of documents after which the sample forgets: the rate at which new documents replace old ones no longer falls.
HORIZON = 50_000
#: Knots may move after 16, 32, 64, … lists, and then after every 1,024 lists.
FIRST = 16
EVERY = 1024
#: The knots of a feature move if one of them is off by more than this share of the values; a sample of 200 is more accurate.
OFF = 0.1
#: Without known bounds, the first and the last knot exclude this share of the values at either end.
BEYOND = 0.01
#: Number of bins of the density of documents.
BINS = 20
#: The axis of a feature is logarithmic if its largest values are at least this many times its small ones.
DECADES = 20.0
_LARGEST = np.float32(1e38)


@dataclass(frozen=True, repr=False)
class Knotted(Representation):
    """A representation with knots on the axis of each feature, learned without labels from the lists with feedback.

    The memory has a sample in which all documents are equally likely (roughly the last `HORIZON`, if there were more). By the
    Dvoretzky-Kiefer-Wolfowitz inequality all shares in a sample of 200 independent documents are within 0.096 of the true ones,
    with probability 0.95. Knots are quantiles of the distinct values in the sample, so a value of many documents takes only one
    knot. A feature with the same value in nearly all of the sample has knots between the least and the largest value of all
    documents. Knots are checked after 16, 32, 64, … lists and after every 1,024th, and every 16 lists while a feature that varies
    has none. The knots of a feature move only if one is off by a tenth of the values of a full sample.
    """

    learns: ClassVar[bool] = True
    within_unit: ClassVar[bool] = True
    learning_only: ClassVar[tuple[str, ...]] = ("sample", "seen", "ends")

    pieces: Annotated[int, Between(1, 64, choices=(2, 4, 8))] = 4
    sample: Annotated[int, Between(10, 2000)] = 200

    @abstractmethod
    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        """Return the new number of pieces per feature after a number of lists, from the current number of pieces."""

    @abstractmethod
    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return the contribution of each feature to the score, once there are knots."""

    @abstractmethod
    def _columns(self, features: Features, knots: Knots) -> Features:
        """Return the columns, once there are knots."""

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Start with one piece: from 0 to 1 if ``unit``, else the range of each query."""
        ends = np.tile([0.0, 1.0] if unit else [np.nan, np.nan], (n_features, 1))
        nothing = np.zeros((0, n_features), np.float32)
        widest = np.tile([np.inf, -np.inf], (n_features, 1))
        seen = frozen(np.zeros(1, np.int64))
        return {"knots": frozen(ends), "sample": frozen(nothing), "seen": seen, "ends": frozen(widest)}

    def apply(self, features: Features, memory: Memory) -> Features:
        """Return the columns; before there are knots, the place of each value in the range of the query."""
        knots: Knots = memory["knots"]
        return query_scaled(features) if math.isnan(knots[0, 0]) else self._columns(features, knots)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Return the columns of many queries' documents, all at once if they do not depend on the query."""
        knots: Knots = memory["knots"]
        return super().apply_all(features, offsets, memory) if np.isnan(knots[0, 0]) else self._columns(features, knots)

    def observe(
        self, memory: Memory, features: Features, step: int, stream: Stream, first: Representation | None = None
    ) -> Memory:
        """Add some of the documents to the sample, and move the knots if necessary."""
        unit = first is not None and first.within_unit
        memory = self._sampled(memory, features, stream, first)
        knots: Knots = memory["knots"]
        if not (_is_due(step + 1) or (step % FIRST == FIRST - 1 and _lacks_knots(knots, memory["ends"]))):
            return memory
        n_pieces = self._n_pieces(knots.shape[1] - 1, step + 1)
        after = self._moved(knots, memory, n_pieces, unit)
        return memory if after is knots else {**memory, "knots": frozen(after)}

    def _moved(self, knots: Knots, memory: Memory, n_pieces: int, unit: bool) -> Knots:
        ends = None if unit else memory["ends"]
        return moved(knots, memory["sample"], n_pieces, ends, len(memory["sample"]) == self.sample)

    def _sampled(self, memory: Memory, features: Features, stream: Stream, first: Representation | None) -> Memory:
        before: NDArray[np.int64] = memory["seen"]
        slots = sample_slots(before[0], features.shape[0], self.sample, HORIZON, stream)
        seen, sample, ends = before + features.shape[0], memory["sample"], memory["ends"]
        seen.flags.writeable = False
        unit = first is not None and first.within_unit
        if unit and not len(slots):  # most later lists add no document to the sample, so it is not copied
            return {**memory, "seen": seen}
        given = features if first is None else first.apply(features, {})
        if len(slots):
            sample = _with_documents(sample, given, slots, min(self.sample, int(seen[0])))
        return {**memory, "sample": sample, "seen": seen, "ends": ends if unit else _widened(ends, given)}

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Keep the weights: one weight per feature has the same meaning for any knots."""
        return weights

    def selected(
        self, weights: Weights, memory: Memory, features: NDArray[np.int64], unit: bool = False
    ) -> tuple[Weights, Memory]:
        """Select weights and knots; and the sample and the ends, which a memory for ranking alone does not have.

        In the documents of the sample a new feature has the value 0. Its knots are evenly spaced from 0 to 1 if all values are in
        this range; else all of them are at 0, with at most one step, until the next check places them.
        """
        if not (features >= 0).any():
            memory = self.start(len(features), unit)
            return frozen(np.zeros(self.n_columns(len(features), memory))), memory
        knots: Knots = memory["knots"]
        fresh = np.linspace(0.0, 1.0, knots.shape[1]) if unit else 0.0
        new = np.nan if np.isnan(knots[0, 0]) else fresh
        selected = rows_of(by_feature(weights, len(knots)), features, 0.0).T.ravel()
        kept = {"knots": rows_of(knots, features, new)}
        if "sample" in memory:
            kept["sample"] = np.ascontiguousarray(rows_of(memory["sample"].T, features, 0.0).T)
            kept["ends"] = rows_of(memory["ends"], features, (np.inf, -np.inf))
        return frozen(selected), {**memory, **{name: frozen(array) for name, array in kept.items()}}

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return the contribution of each feature; before there are knots, lines over its place in the range of the query."""
        knots: Knots = memory["knots"]
        return QueryScaled().curves(weights, {}) if np.isnan(knots[0, 0]) else self._curves(weights, knots)


def risen(knots: Knots, rises: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the heights at the knots for these rises from knot to knot; a piece without width has no ramp and does not rise."""
    live = np.where(np.diff(knots, axis=1) > NARROWEST, rises, 0.0)
    return np.concatenate([np.zeros((len(knots), 1)), np.cumsum(live, axis=1)], axis=1)


def ramp_curves(knots: Knots, heights: NDArray[np.float64]) -> list[Curve]:
    """Return the curves that are straight between their heights at the knots."""
    return [Curve(*each, "ramps") for each in zip(knots, heights, strict=True)]


def _widened(ends: NDArray[np.float64], features: Features) -> NDArray[np.float64]:
    """Return the least and the largest value of each feature so far; the same array if nothing changes."""
    if is_within(features, ends):
        return ends
    low, high = features.min(axis=0), features.max(axis=0)
    wider = np.stack([np.minimum(ends[:, 0], low), np.maximum(ends[:, 1], high)], axis=1)
    return frozen(np.clip(wider, -_LARGEST, _LARGEST))


def _lacks_knots(knots: Knots, ends: NDArray[np.float64]) -> bool:
    """Return whether a feature that varies has all knots at one value."""
    return bool(((knots[:, 0] == knots[:, -1]) & (ends[:, 0] < ends[:, 1])).any())


def _with_documents(
    sample: NDArray[np.float32], features: Features, slots: NDArray[np.int64], size: int
) -> NDArray[np.float32]:
    """Return the sample with some documents in their slots; of two documents for one slot, the later is kept."""
    grown = np.empty((size, features.shape[1]), np.float32)
    grown[: len(sample)] = sample
    chosen = np.flatnonzero(slots >= 0)
    grown[slots[chosen]] = np.clip(features[chosen], -_LARGEST, _LARGEST)
    grown.flags.writeable = False
    return grown


def heights_at(curves: list[Curve], knots: Knots) -> NDArray[np.float64]:
    """Return the heights of curves at the knots of their features, (n_features, n_knots)."""
    return np.array([curve.at(row) for curve, row in zip(curves, knots, strict=True)])


def _is_due(lists: int) -> bool:
    return lists % EVERY == 0 or (FIRST <= lists < EVERY and lists & (lists - 1) == 0)


def moved(
    knots: Knots, sample: NDArray[np.float32], n_pieces: int, ends: NDArray[np.float64] | None, full: bool = True
) -> Knots:
    """Return the knots for a sample; the same array if none has to move.

    Parameters
    ----------
    knots
        The current knots.
    sample
        (n, n_features) a sample of the documents seen.
    n_pieces
        The new number of pieces per feature.
    ends
        (n_features, 2) the least and the largest value of each feature; None if all are known to be from 0 to 1.
    full
        Whether the sample is large enough to move existing knots.
    """
    before, known = knots.shape[1] - 1, not np.isnan(knots[0, 0])
    target = np.linspace(0.0, 1.0, n_pieces + 1)
    fresh: Any = np.empty((len(knots), n_pieces + 1))
    for feature, values in enumerate(np.asarray(sample, np.float64).T):
        row, found = knots[feature], different(values, None if ends is None else ends[feature])
        places, placed = np.linspace(0.0, 1.0, len(found)), known and row[0] < row[-1]
        if placed and n_pieces == 2 * before:
            fresh[feature] = _split(row, found)
        elif placed and n_pieces == before and (not full or _fits(row, found, places, target)):
            fresh[feature] = row
        else:
            fresh[feature] = np.interp(target, places, found)
    return knots if np.array_equal(fresh, knots) else fresh


def different(values: NDArray[np.float64], ends: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the distinct values of a feature in a sample, ascending.

    Without ends, 0 and 1 are added. With ends, the outermost values are excluded; if only one value is left, the ends are added.
    """
    if ends is None:
        return np.unique(np.concatenate([values, [0.0, 1.0]]))
    low, high = np.quantile(values, [BEYOND, 1.0 - BEYOND], method="nearest")
    if low == high and ends[0] < ends[1]:
        return np.unique(np.concatenate([values, ends]))
    return np.unique(np.clip(values, low, high))


def _fits(
    knots: NDArray[np.float64], found: NDArray[np.float64], places: NDArray[np.float64], target: NDArray[np.float64]
) -> bool:
    return bool(np.abs(np.interp(knots, found, places) - target).max() <= OFF)


def _split(knots: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Halve each piece at the median of the distinct values within it, so that no curve changes."""
    halved = np.empty(2 * len(knots) - 1)
    halved[::2] = knots
    for piece in range(len(knots) - 1):
        low, high = knots[piece], knots[piece + 1]
        inside = found[(found > low) & (found < high)]
        halved[2 * piece + 1] = np.median(inside) if len(inside) else 0.5 * low + 0.5 * high
    return halved


@register
@dataclass(frozen=True, repr=False)
class Distribution(Knotted):
    """Replace each value by the share of the feature's distribution below it; ties have the middle of their range.

    The distribution is that of the distinct values in a sample of the documents seen, stored as ``pieces`` pieces.

    Parameters
    ----------
    pieces
        Number of pieces between quantiles; shares are interpolated on each.
    sample
        Number of documents to remember.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Distribution
    >>> price = {"knots": np.array([[5.0, 20.0, 60.0, 900.0]])}
    >>> Distribution(pieces=3).apply(np.array([[2.0], [40.0], [900.0]]), price).ravel().tolist()
    [0.0, 0.5, 1.0]
    """

    pieces: Annotated[int, Between(1, 1024)] = 32

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        return self.pieces

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = shares(features, knots)
        return columns

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return the distribution of each feature, times its weight."""
        rise = np.linspace(0.0, 1.0, knots.shape[1])
        return [Curve(row, weight * rise, "ramps") for row, weight in zip(knots, weights.tolist(), strict=True)]


alias("distribution", Distribution())


@register
@dataclass(frozen=True, repr=False)
class Ramps(Knotted):
    """Cut the axis of each feature into pieces, with a ramp from 0 to 1 on each: r(x) = clip((x − q_k) / (q_{k+1} − q_k), 0, 1).

    With one weight per ramp, the score is a sum of curves, one per feature, that are straight between the knots q. A straight line
    is a special case, and a piece can be halved without changing a curve: a ranker starts with one piece per feature and halves
    them later, at the checks of `Knotted`. When knots move, each new curve has the heights of the old one at the new knots.

    Parameters
    ----------
    pieces
        Maximum number of pieces per feature.
    sample
        Number of documents to remember for placing the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Ramps
    >>> price = {"knots": np.array([[5.0, 20.0, 60.0, 900.0]])}
    >>> Ramps(pieces=3).apply(np.array([[2.0], [40.0], [900.0]]), price).tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, 1.0, 1.0]]
    """

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        return min(self.pieces, 2 * n_pieces)

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return one column for each piece of each feature."""
        return n_features * (len(memory["knots"][0]) - 1)

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = ramps(features, knots)
        return columns

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Return the curves with the old heights at the new knots."""
        old, new = before["knots"], after["knots"]
        if np.isnan(new[0, 0]):  # one straight line over the range of each query
            return frozen(weights.reshape(-1, len(old)).sum(axis=0))
        if np.isnan(old[0, 0]):
            old = new[:, [0, -1]]
        heights = heights_at(self.curves(weights, {"knots": old}), new)
        return frozen(np.diff(heights, axis=1).T.ravel())

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return for each feature the sum of its ramps."""
        return ramp_curves(knots, risen(knots, weights.reshape(-1, len(knots)).T))


alias("ramps", Ramps())


@register
@dataclass(frozen=True, repr=False)
class Steps(Knotted):
    """Cut the axis of each feature into pieces of constant height, with a step from 0 to 1 at each inner knot: 1 if x > q_k.

    The score is a sum of step functions, one per feature, which engines with decision trees reproduce exactly. Before the first
    knots it is linear in the place of each value in the range of its query; that line becomes a step function of the same rise.

    Parameters
    ----------
    pieces
        Number of pieces per feature; there is one step fewer.
    sample
        Number of documents to remember for placing the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import Steps
    >>> price = {"knots": np.array([[5.0, 20.0, 60.0, 900.0]])}
    >>> Steps(pieces=3).apply(np.array([[20.0], [40.0], [900.0]]), price).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """

    pieces: Annotated[int, Between(2, 64, choices=(2, 4, 8))] = 4

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Start without knots, also if the range of the values is known."""
        return super().start(n_features, unit=False)

    def _moved(self, knots: Knots, memory: Memory, n_pieces: int, unit: bool) -> Knots:
        """Place each threshold midway between two distinct values, so that rounding one of them changes nothing."""
        after = super()._moved(knots, memory, n_pieces, unit)
        if after is knots:
            return knots
        for row, values in zip(after, np.asarray(memory["sample"], np.float64).T, strict=True):
            found = np.unique(values)
            if len(found) > 1:
                left = np.clip(np.searchsorted(found, row[1:-1], "right") - 1, 0, len(found) - 2)
                row[1:-1] = np.sort(0.5 * found[left] + 0.5 * found[left + 1])
        return knots if np.array_equal(after, knots) else after

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        return self.pieces

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return one column for each inner knot of each feature."""
        return n_features * max(1, len(memory["knots"][0]) - 2)

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = steps(features, knots)
        return columns

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Return the rise of the old curve around each knot, between the middles of the adjacent pieces."""
        old, new = before["knots"], after["knots"]
        if np.isnan(new[0, 0]):
            return frozen(weights.reshape(-1, len(old)).sum(axis=0))
        middles = 0.5 * new[:, 1:] + 0.5 * new[:, :-1]
        if np.isnan(old[0, 0]):
            share = np.arange(1, new.shape[1]) / (new.shape[1] - 1) - 0.5 / (new.shape[1] - 1)
            heights = weights[:, None] * share
        else:
            heights = heights_at(self.curves(weights, before), middles)
        return frozen(np.diff(heights, axis=1).T.ravel())

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return for each feature the sum of its steps."""
        rises = weights.reshape(-1, len(knots)).T
        heights = np.concatenate([np.zeros((len(knots), 1)), np.cumsum(rises, axis=1)], axis=1)
        return [Curve(*each, "steps") for each in zip(knots[:, :-1], heights, strict=True)]


alias("steps", Steps())


@register
@dataclass(frozen=True, repr=False)
class BentLines(Knotted):
    """Represent each feature by a line and by lower ramps (see `Ramps`), so that linear functions remain easy to learn.

    The columns of a feature are its line, from 0 at the first knot to 1 at the last, and ``bend`` times the ramp of each piece.
    A lower column changes the score less for the same step of its weight, so a curve bends only with repeated evidence. A ranker
    starts with the lines alone, and ramps follow: two pieces after 16 lists, four after 16,384 and eight after 16,777,216. Neither
    the first ramps nor halving a piece changes a score.

    Parameters
    ----------
    pieces
        Maximum number of pieces per feature.
    sample
        Number of documents to remember for placing the knots.
    bend
        Height of the ramps; 0.5 was chosen on validation data.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import BentLines
    >>> price = {"knots": np.array([[0.0, 20.0, 100.0]])}
    >>> BentLines(pieces=2).apply(np.array([[10.0], [60.0]]), price).tolist()
    [[0.1, 0.25, 0.0], [0.6, 0.5, 0.25]]
    """

    bend: Annotated[float, Between(1e-6, 1e6, tuned=(0.01, 10.0), log=True)] = 0.5

    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        """Halve the pieces after 16 lists, and each time again after 1,024 times as many: more columns mean more noise."""
        enough = FIRST * EVERY ** (n_pieces.bit_length() - 1)
        return min(self.pieces, 2 * n_pieces) if lists >= enough else n_pieces

    def n_columns(self, n_features: int, memory: Memory) -> int:
        """Return one column for the line of each feature and, with two pieces or more, one for each of its pieces."""
        n_pieces = len(memory["knots"][0]) - 1
        return n_features * (n_pieces + 1 if n_pieces > 1 else 1)

    def _columns(self, features: Features, knots: Knots) -> Features:
        columns: Features = line_and_ramps(features, knots, self.bend)
        return columns

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Keep the rise of each line; the ramps take the rest, so that the heights at the new knots are those of the old curve."""
        old, new = before["knots"], after["knots"]
        if np.isnan(new[0, 0]):
            return frozen(
                weights if np.isnan(old[0, 0]) else line_and_ramp_heights(weights, old, self.bend)[:, -1].copy()
            )
        if np.isnan(old[0, 0]):
            old = np.ascontiguousarray(new[:, [0, -1]])
            old.flags.writeable = False
        return frozen(carry_line_and_ramps(weights, old, new, self.bend))

    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return for each feature the sum of its line and its ramps."""
        return ramp_curves(knots, line_and_ramp_heights(weights, knots, self.bend))


alias("curves", BentLines())


@dataclass(frozen=True, eq=False)
class ShownCurve:
    """The curve of one feature with its importance and the distribution of the documents.

    Parameters
    ----------
    name
        Name of the feature.
    curve
        Contribution of the feature to the score.
    importance
        Effect on rankings: the standard deviation of the heights over the documents in the sample; without a sample, the difference
        between the highest and the lowest point.
    edges
        (n_bins + 1,) edges of bins over the axis, evenly spaced, on a logarithmic axis if the values span decades; empty without a
        sample.
    shares
        (n_bins,) the share of the documents in each bin; the outermost bins include all values beyond them.
    domain
        The argument of the curve: "value", "scaled value", "query range" or "query rank".
    deviation
        Standard deviation of the rise of the curve, from its first point to its last; None for an algorithm without a belief. The
        weights of the columns count as independent.
    uncertainty
        Importance of the standard deviations of the weights: large for a feature that is explored, because its effect on rankings
        is not known; None for an algorithm without a belief.
    """

    name: str
    curve: Curve
    importance: float
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]
    domain: Domain
    deviation: float | None = None
    uncertainty: float | None = None


def shown_curves(
    representation: Representation,
    weights: Weights,
    memory: Memory,
    names: Sequence[str],
    deviations: NDArray[np.float64] | None = None,
) -> list[ShownCurve]:
    """Return the curves of all features, the most important first.

    Parameters
    ----------
    representation
        The representation of the recipe; `Raw()` for an algorithm without one.
    weights
        (n_columns,) the weights of a state.
    memory
        The memory of the representation: in the memory of a state, the entry "representation".
    names
        The names of the features.
    deviations
        (n_columns,) the standard deviations of the weights; None if they are not known.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.representation import QueryScaled
    >>> for each in shown_curves(QueryScaled(), np.array([0.5, -2.0]), {}, ["bm25", "price"]):
    ...     print(each.name, each.importance, each.curve.heights.tolist(), each.domain)
    price 2.0 [0.0, -2.0] query range
    bm25 0.5 [0.0, 0.5] query range
    """
    first, sample = with_curves(representation, memory), memory.get("sample")
    curves = first.curves(weights, memory)
    values = [np.empty(0)] * len(curves)
    if sample is not None and first is representation:
        values = list(np.asarray(sample, np.float64).T)
    found = [_shown(*each, first.domain) for each in zip(names, curves, values, strict=True)]
    if deviations is not None:
        alone = column_curves(first, deviations, memory, len(names))
        found = [_with_belief(*each) for each in zip(found, alone, values, strict=True)]
    return sorted(found, key=lambda each: -each.importance)


def _with_belief(shown: ShownCurve, alone: Sequence[Curve], values: NDArray[np.float64]) -> ShownCurve:
    spread = math.hypot(*(_importance(each, values) for each in alone))
    return replace(shown, deviation=math.hypot(*map(rise_of, alone)), uncertainty=spread)


def with_curves(representation: Representation, memory: Memory) -> Representation:
    """Return the representation; before its first knots, one that is linear in the place in the range of the query."""
    knots = memory.get("knots")
    return QueryScaled() if knots is not None and np.isnan(knots[0, 0]) else representation


def rise_of(curve: Curve) -> float:
    """Return the difference between the last height of a curve and the first."""
    return float(curve.heights[-1] - curve.heights[0])


def column_curves(
    representation: Representation, weights: Weights, memory: Memory, n_features: int
) -> list[tuple[Curve, ...]]:
    """Return the curves of each feature, one for each of its columns, with the weights of the other columns 0."""
    columns = weights.reshape(-1, n_features)
    masks = np.eye(len(columns))[:, :, None]
    alone = [representation.curves(frozen((columns * mask).ravel()), memory) for mask in masks]
    return list(zip(*alone, strict=True))


def _importance(curve: Curve, values: NDArray[np.float64]) -> float:
    return float(curve.at(values).std() if len(values) else np.ptp(curve.heights))


def _shown(name: str, curve: Curve, values: NDArray[np.float64], domain: Domain) -> ShownCurve:
    importance = _importance(curve, values)
    if not len(values):
        nothing = frozen(np.empty(0))
        return ShownCurve(name, curve, importance, nothing, nothing, domain)
    low, high = (0.0, 1.0) if domain.startswith("query") else np.quantile(values, [BEYOND, 1.0 - BEYOND])
    if low == high:  # one bin for the value of nearly all documents
        edges, share = np.array([low, np.nextafter(low, np.inf)]), np.ones(1)
        return ShownCurve(name, curve, importance, frozen(edges), frozen(share), domain)
    counts, edges = np.histogram(np.clip(values, low, high), _edges(values, low, high))
    return ShownCurve(name, curve, importance, frozen(edges), frozen(counts / len(values)), domain)


def _edges(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Return evenly spaced bins; for values with a long tail, in asinh, which is like a logarithm but includes 0 and signs."""
    sizes, largest = np.abs(values[values != 0.0]), max(abs(low), abs(high))
    small, middle = np.quantile(sizes, [0.1, 0.5]) if len(sizes) else (1.0, 1.0)
    if not low < high or largest < DECADES * small or middle > 0.2 * largest:
        return np.histogram_bin_edges(values, BINS, (low, high))
    edges = small * np.sinh(np.linspace(np.arcsinh(low / small), np.arcsinh(high / small), BINS + 1))
    edges[[0, -1]] = low, high  # without a rounding error
    return np.asarray(edges)
