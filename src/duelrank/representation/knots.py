"""Learns knots from the documents of requests: a bounded sample of documents, and quantiles of it that move only when they must."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.representation import NARROWEST, is_within, sample_slots
from duelrank.registry import Between
from duelrank.representation.base import Curve, Representation, by_feature, rows_of
from duelrank.representation.query_scaled import QueryScaled, query_scaled
from duelrank.types import Features, Memory, Stream, Weights, frozen

__all__ = ["Knotted"]

#: From so many documents on the sample forgets: a new one takes the place of an old one at a rate that no longer falls.
HORIZON = 50_000
#: Knots may move after 16, 32, 64, … lists, and then after every so many.
EVERY = 1024
FIRST = 16
#: A feature's knots move when one of them is off by more than this share of the values; a sample of 200 is surer than that.
OFF = 0.1
#: Without known bounds, the first and the last knot leave out this share of the values at either end.
BEYOND = 0.01
_LARGEST = np.float32(1e38)

Knots = NDArray[np.float64]  # (n_features, n_knots), each row ascending; NaN before anything is known


@dataclass(frozen=True, repr=False)
class Knotted(Representation):
    """A representation with knots on the axis of each feature, learned without labels from the lists that are learned from.

    The memory holds a sample of the documents, each as likely in it as any other (the last `HORIZON` of them, roughly, when there
    were more). By the Dvoretzky-Kiefer-Wolfowitz inequality the shares in a sample of 200 independent documents are all within
    0.096 of the true ones, with probability 0.95. Knots are quantiles of the different values in the sample, so that a value
    which many documents share takes one knot only. A feature that is the same in nearly all of the sample has knots between the
    least and the largest value of all documents. They are checked after 16, 32, 64, … lists and after every 1,024th, and every 16
    lists while a feature that varies has none; the knots of a feature stay where they are until one is off by a tenth of the values
    of a full sample.
    """

    learns: ClassVar[bool] = True
    within_unit: ClassVar[bool] = True

    pieces: Annotated[int, Between(1, 64, choices=(2, 4, 8))] = 4
    sample: Annotated[int, Between(10, 2000)] = 200

    @abstractmethod
    def _n_pieces(self, n_pieces: int, lists: int) -> int:
        """Return how many pieces each feature is to have after so many lists, where it had so many before."""

    @abstractmethod
    def _curves(self, weights: Weights, knots: Knots) -> list[Curve]:
        """Return what each feature adds to the score, once there are knots."""

    @abstractmethod
    def _columns(self, features: Features, knots: Knots) -> Features:
        """Return the columns, once there are knots."""

    def start(self, n_features: int, unit: bool = False) -> Memory:
        """Start with one piece: from 0 to 1, or as each query has it."""
        ends = np.tile([0.0, 1.0] if unit else [np.nan, np.nan], (n_features, 1))
        nothing = np.zeros((0, n_features), np.float32)
        widest = np.tile([np.inf, -np.inf], (n_features, 1))
        seen = frozen(np.zeros(1, np.int64))
        return {"knots": frozen(ends), "sample": frozen(nothing), "seen": seen, "ends": frozen(widest)}

    def apply(self, features: Features, memory: Memory) -> Features:
        """Return the columns; before there are knots, the place of each value in the range of the query."""
        knots: Knots = memory["knots"]
        return query_scaled(features) if np.isnan(knots[0, 0]) else self._columns(features, knots)

    def apply_all(self, features: Features, offsets: NDArray[np.int64], memory: Memory) -> Features:
        """Return the columns of many queries' documents at once, where they do not depend on the query."""
        knots: Knots = memory["knots"]
        return super().apply_all(features, offsets, memory) if np.isnan(knots[0, 0]) else self._columns(features, knots)

    def observe(
        self, memory: Memory, features: Features, step: int, stream: Stream, first: Representation | None = None
    ) -> Memory:
        """Add some of the documents to the sample, and look whether the knots should move."""
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
        if unit and not len(slots):  # later, few lists give a document to the sample, and only for those it is copied
            return {**memory, "seen": seen}
        given = features if first is None else first.apply(features, {})
        if len(slots):
            sample = _with_documents(sample, given, slots, min(self.sample, int(seen[0])))
        return {**memory, "sample": sample, "seen": seen, "ends": ends if unit else _widened(ends, given)}

    def carry(self, weights: Weights, before: Memory, after: Memory) -> Weights:
        """Keep the weights: one for each feature means the same for any knots."""
        return weights

    def selected(
        self, weights: Weights, memory: Memory, features: NDArray[np.int64], unit: bool = False
    ) -> tuple[Weights, Memory]:
        """Select knots, sample and ends, too.

        The documents in the sample count as if a new feature had been 0 in them, which is one value of many where knots are
        placed. Its knots are even from 0 to 1 where all values are known to be there; else all of them are at 0, where it has
        one step at most, until the next check places them.
        """
        if not (features >= 0).any():
            memory = self.start(len(features), unit)
            return frozen(np.zeros(self.n_columns(len(features), memory))), memory
        knots: Knots = memory["knots"]
        fresh = np.linspace(0.0, 1.0, knots.shape[1]) if unit else 0.0
        new = np.nan if np.isnan(knots[0, 0]) else fresh
        selected = rows_of(by_feature(weights, len(knots)), features, 0.0).T.ravel()
        sample = np.ascontiguousarray(rows_of(memory["sample"].T, features, 0.0).T)
        ends = rows_of(memory["ends"], features, (np.inf, -np.inf))
        kept = {"knots": rows_of(knots, features, new), "sample": sample, "ends": ends}
        return frozen(selected), {**memory, **{name: frozen(array) for name, array in kept.items()}}

    def curves(self, weights: Weights, memory: Memory) -> list[Curve]:
        """Return what each feature adds to the score; before there are knots, lines over its place in the query's range."""
        knots: Knots = memory["knots"]
        return QueryScaled().curves(weights, {}) if np.isnan(knots[0, 0]) else self._curves(weights, knots)


def risen(knots: Knots, rises: NDArray[np.float64]) -> list[Curve]:
    """Return the curves that rise by so much from knot to knot; a piece without width has no ramp, so it does not rise."""
    live = np.where(np.diff(knots, axis=1) > NARROWEST, rises, 0.0)
    heights = np.concatenate([np.zeros((len(knots), 1)), np.cumsum(live, axis=1)], axis=1)
    return [Curve(*each, "ramps") for each in zip(knots, heights, strict=True)]


def _widened(ends: NDArray[np.float64], features: Features) -> NDArray[np.float64]:
    """Return the least and the largest value of each feature so far; the same array where they do not change."""
    if is_within(features, ends):
        return ends
    low, high = features.min(axis=0), features.max(axis=0)
    wider = np.stack([np.minimum(ends[:, 0], low), np.maximum(ends[:, 1], high)], axis=1)
    return frozen(np.clip(wider, -_LARGEST, _LARGEST))


def _lacks_knots(knots: Knots, ends: NDArray[np.float64]) -> bool:
    """Whether there are knots, but all of a feature's at one value although it varies."""
    return bool(((knots[:, 0] == knots[:, -1]) & (ends[:, 0] < ends[:, 1])).any())


def _with_documents(
    sample: NDArray[np.float32], features: Features, slots: NDArray[np.int64], size: int
) -> NDArray[np.float32]:
    """Return the sample with some documents in their slots; of two for one slot the later stays."""
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
    """Return the knots that go with a sample; the same array where none has to move.

    Parameters
    ----------
    knots
        Of now.
    sample
        (n, n_features) of the documents seen.
    n_pieces
        How many pieces each feature is to have.
    ends
        (n_features, 2) the least and the largest value of each feature; None where all are known to be from 0 to 1.
    full
        Whether the sample is large enough to move knots that are there.
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
    """Return the different values of a feature in a sample, ascending.

    The first and the last are 0 and 1 if no ends are given. Else they leave out the outermost values; where only one value is left
    by that, they are the ends.
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
    """Halve each piece at the median of the different values within it, so that no curve changes."""
    halved = np.empty(2 * len(knots) - 1)
    halved[::2] = knots
    for piece in range(len(knots) - 1):
        low, high = knots[piece], knots[piece + 1]
        inside = found[(found > low) & (found < high)]
        halved[2 * piece + 1] = np.median(inside) if len(inside) else 0.5 * low + 0.5 * high
    return halved
