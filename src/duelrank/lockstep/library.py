"""Loads the queries of all data sets and folds of a batch onto the device, in one table that all runs share."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.datasets import Dataset, Fold, Split
from duelrank.lockstep.metrics import ideals
from duelrank.lockstep.twin import Array, DType
from duelrank.metrics import Metric
from duelrank.representation import Raw, Representation

Place = tuple[Dataset, int]


class Shelf(NamedTuple):
    """Labelled queries on the device: the documents row by row, and for each query its first row, size and ideal metric.

    The table ends with empty rows, as many as the widest query has, so that a slice of that size is always within the table.
    """

    features: Array
    labels: Array
    starts: Array
    sizes: Array
    ideals: Array


class Popularity(NamedTuple):
    """How often training queries are asked: a query that is drawn uniformly stays with a probability, or is replaced by another.

    Both arrays have one entry per training query; ``others`` has numbers within the fold. If all queries are equally popular, every
    query stays.
    """

    stays: Array
    others: Array


class Training(NamedTuple):
    """What runs learn from: the training queries, and their popularity."""

    shelf: Shelf
    popularity: Popularity


@dataclass(frozen=True)
class Library:
    """The queries of a batch.

    Parameters
    ----------
    train
        All training queries of all folds.
    popularity
        The popularity of these queries, within each fold.
    first, count
        For each fold, the number of its first training query, and the number of its training queries.
    held_out
        For each fold, the queries to evaluate on; all have the same shape.
    n_features, n_grades
        For each fold, the number of features and of grades.
    widest, rows, n_columns, grades
        The largest training query or the length of a list, the largest number of training documents of a fold plus empty rows as
        at the end of the table, the largest number of features, and the largest number of grades.
    """

    train: Shelf
    popularity: Popularity
    first: dict[Place, int]
    count: dict[Place, int]
    held_out: dict[Place, Shelf]
    n_features: dict[Place, int]
    n_grades: dict[Place, int]
    widest: int
    rows: int
    n_columns: int
    grades: int

    @property
    def n_bytes(self) -> int:
        """Number of bytes on the device."""
        shelves = (self.train, self.popularity, *self.held_out.values())
        return sum(int(array.nbytes) for shelf in shelves for array in shelf)

    @property
    def training(self) -> Training:
        """The input of a program."""
        return Training(self.train, self.popularity)


def opened(place: Place, split: str) -> Fold:
    """Return a fold; raise an error if it has no queries to learn from or to evaluate on."""
    dataset, number = place
    fold = dataset.fold(number)
    if not len(fold.train) or not len(getattr(fold, split)):
        raise InvalidValue(f"fold {number} of {dataset!r} has no training or no {split} queries")
    return fold


def widest_query(split: Split) -> int:
    """Return the number of documents of the largest query."""
    return int(np.diff(split.offsets).max())


def load(
    places: Sequence[Place],
    metric: Metric,
    split: str,
    real: DType,
    representation: Representation | None = None,
    length: int = 1,
) -> Library:
    """Load the queries of some folds onto the device, after a representation that does not learn.

    Queries count as at least as wide as the length of a list, so that every position has a row.
    """
    seen = partial(_represented, representation or Raw())
    folds: dict[Place, Fold] = {place: opened(place, split) for place in places}
    held: dict[Place, Split] = {place: seen(getattr(fold, split)) for place, fold in folds.items()}
    n_columns = max(fold.n_features for fold in folds.values())
    widest = max(length, *(widest_query(fold.train) for fold in folds.values()))
    held_widest = max(widest_query(each) for each in held.values())
    rows = max(each.n_documents for each in held.values()) + held_widest
    queries = max(len(each) for each in held.values())
    counts = {place: len(fold.train) for place, fold in folds.items()}
    firsts = dict(zip(counts, np.cumsum([0, *counts.values()])[:-1].tolist(), strict=True))
    return Library(
        _shelf([seen(fold.train) for fold in folds.values()], metric, n_columns, widest, real),
        _popularity(list(folds.values())),
        firsts,
        counts,
        {
            place: _padded(_shelf([each], metric, n_columns, held_widest, real), rows, queries)
            for place, each in held.items()
        },
        {place: fold.n_features for place, fold in folds.items()},
        {place: fold.n_grades for place, fold in folds.items()},
        widest,
        max(fold.train.n_documents for fold in folds.values()) + widest,
        n_columns,
        max(
            int(split.labels.max()) + 1
            for fold in folds.values()
            for split in (fold.train, fold.test, fold.validation)
            if len(split)
        ),
    )


def _represented(representation: Representation, split: Split) -> Split:
    columns = representation.apply_all(split.features, split.offsets, representation.start(split.n_features))
    return split if columns is split.features else Split.trusted(columns, split.labels, split.offsets, split.ids)


def _shelf(splits: Sequence[Split], metric: Metric, n_columns: int, room: int, real: DType) -> Shelf:
    total = sum(split.n_documents for split in splits)
    features, labels = np.zeros((total + room, n_columns), real), np.zeros(total + room, np.int8)
    starts, sizes, best, row = [], [], [], 0
    for split in splits:
        features[row : row + split.n_documents, : split.n_features] = split.features
        labels[row : row + split.n_documents] = split.labels
        starts.append(split.offsets[:-1] + row)
        sizes.append(np.diff(split.offsets))
        best.append(ideals(metric, split.labels, split.offsets))
        row += split.n_documents
    whole = (np.concatenate(each).astype(np.int32) for each in (starts, sizes))
    return Shelf(*(jnp.asarray(each) for each in (features, labels, *whole, np.concatenate(best))))


def _popularity(folds: Sequence[Fold]) -> Popularity:
    tables = [alias_table(np.ones(len(fold.train)) if fold.popularity is None else fold.popularity) for fold in folds]
    stays, others = (np.concatenate(each) for each in zip(*tables, strict=True))
    return Popularity(jnp.asarray(stays), jnp.asarray(others.astype(np.int32)))


def alias_table(popularity: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return for each query the probability that it stays if it is drawn uniformly, and the query that else replaces it.

    Each query that is less popular than the mean is replaced by one that is more popular. The least popular come first: should
    rounding leave some without another, these have nearly the mean, and never a popularity of 0.

    References
    ----------
    Walker, "An efficient method for generating discrete random variables with general distributions" (ACM TOMS 1977).
    """
    shares = popularity * (len(popularity) / popularity.sum())
    stays, others = np.ones(len(shares)), np.arange(len(shares))
    ascending = np.argsort(shares, kind="stable")
    n_rare = int(np.count_nonzero(shares < 1.0))
    rare, frequent = deque(ascending[:n_rare].tolist()), ascending[n_rare:].tolist()
    while rare and frequent:
        query, other = rare.popleft(), frequent[-1]
        stays[query], others[query] = shares[query], other
        shares[other] -= 1.0 - shares[query]
        if shares[other] < 1.0:
            rare.append(frequent.pop())
    return stays, others


def _padded(shelf: Shelf, rows: int, queries: int) -> Shelf:
    """Add rows, and queries without documents, up to the given numbers."""
    more, n = rows - len(shelf.labels), queries - len(shelf.starts)
    return Shelf(
        jnp.pad(shelf.features, ((0, more), (0, 0))),
        jnp.pad(shelf.labels, (0, more)),
        jnp.pad(shelf.starts, (0, n)),
        jnp.pad(shelf.sizes, (0, n)),
        jnp.pad(shelf.ideals, (0, n), constant_values=jnp.inf),
    )
