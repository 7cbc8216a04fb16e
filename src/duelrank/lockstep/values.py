"""The values that pass between the twins, of one run each; the engine stacks them over all runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["RUNS", "Clicked", "Memory", "Numbers", "Query", "Shown", "Sizes", "State"]

#: The name of the axis of all runs: what no run needs is not computed for any.
RUNS = "runs"

Array = Any  # a JAX array
Numbers = Any  # the numeric parameters of a recipe, nested as its parts
Memory = Any  # what a part remembers: a tuple of arrays, () for nothing


def _as_they_are(rows: Array) -> Array:
    return rows


class Sizes(NamedTuple):
    """What decides how much memory a run takes: weights of a ranker, documents of a query, length of a list, rankers of a list."""

    columns: int
    widest: int
    length: int
    rankers: int


class Query(NamedTuple):
    """A query; as everywhere, without labels.

    Parameters
    ----------
    table
        (rows, features) all documents of all queries, as they are before a representation that learns.
    start, size
        Its first row, and how many documents it has.
    features
        (widest, columns) its documents; rows from ``size`` on belong to other queries.
    present
        (widest,) flags of its documents.
    places
        (length,) flags of the positions of a list: a query may have fewer documents.
    columns
        Flags of the columns that this run has: of the features of its data set or, before a representation, a row of them for each
        column of a feature.
    represent
        Turns rows of the table into columns.
    """

    table: Array
    start: Array
    size: Array
    features: Array
    present: Array
    places: Array
    columns: Array
    represent: Callable[[Array], Array] = _as_they_are

    def documents(self, rows: Array) -> Array:
        """Return the columns of documents, from the numbers of their rows in the table."""
        return self.represent(self.table[rows])


class State(NamedTuple):
    """What was learned: as `duelrank.types.State`."""

    weights: Array
    step: Array
    updates: Array
    memory: Memory


class Shown(NamedTuple):
    """A list: numbers of documents within the query, and how it was made."""

    ranking: Array
    trace: Any


class Clicked(NamedTuple):
    """The feedback on a list: flags of the clicked positions, the lowest click (from 1, 0 for none), positions examined."""

    clicks: Array
    last: Array
    examined: Array
