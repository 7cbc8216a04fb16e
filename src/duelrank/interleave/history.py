"""Remembers the counts of a comparison at some times in the past, for a picture of the win rate over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number

__all__ = ["Counts", "History"]

Counts: TypeAlias = NDArray[np.int64]  # (n_rankers, n_rankers)

_STEPS = 14  # a step is a 14th of what there is, at least 1: 33 points for each power of ten


@dataclass
class History:
    """Wins at growing numbers of impressions; their number grows with the logarithm of the impressions.

    Parameters
    ----------
    impressions
        Number of recorded lists at each point, rising.
    wins
        Number of impressions, up to then, in which the row was preferred to the column.
    """

    impressions: list[int] = field(default_factory=list)
    wins: list[Counts] = field(default_factory=list)

    @property
    def next(self) -> int:
        """The number of impressions at which the next point is due."""
        last = self.impressions[-1] if self.impressions else 0
        return last + max(1, last // _STEPS)

    def add(self, impressions: int, wins: Counts) -> None:
        """Remember the present counts, if a point is due."""
        if impressions >= self.next:
            self.impressions.append(impressions)
            self.wins.append(wins.copy())

    def until(self, impressions: int, wins: Counts) -> History:
        """Return the history that ends with the present counts."""
        if impressions in (0, *self.impressions[-1:]):
            return History(self.impressions.copy(), self.wins.copy())
        return History([*self.impressions, impressions], [*self.wins, wins.copy()])

    @staticmethod
    def side_by_side(one: History, other: History) -> History:
        """Return the history of both together, each up to its present counts, as if they had begun and ended at the same time.

        A point of either is joined by the latest point of the other that was not later, in relation to its own length.
        """
        both = [each for each in (one, other) if each.impressions]
        times = [np.array(each.impressions) / each.impressions[-1] for each in both]
        found = History()
        for time in np.unique(np.concatenate([[1.0], *times])):
            places = [int(np.searchsorted(each, time, side="right")) - 1 for each in times]
            reached = [(each, place) for each, place in zip(both, places, strict=True) if place >= 0]
            if reached:
                found.add(
                    sum(each.impressions[place] for each, place in reached),
                    np.sum([each.wins[place] for each, place in reached], axis=0),
                )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the history as JSON-compatible values."""
        return {"impressions": list(self.impressions), "wins": [table.tolist() for table in self.wins]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], n: int) -> History:
        """Restore a history of n rankers from the values of `to_dict`."""
        impressions = [whole_number("the impressions of a history", each, 1) for each in data["impressions"]]
        wins = np.array(data["wins"]) if impressions else np.empty((0, n, n), np.int64)
        if wins.shape != (len(impressions), n, n) or wins.dtype.kind not in "iu" or (wins < 0).any():
            raise InvalidValue(f"a stored history of {n} rankers must have an {n} × {n} table of wins for each point")
        if any(a >= b for a, b in pairwise(impressions)):
            raise InvalidValue("the impressions of a stored history must rise")
        return cls(impressions, list(wins.astype(np.int64)))
