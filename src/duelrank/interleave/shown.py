"""Defines `Shown`, a shown list as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duelrank.core.errors import InvalidValue
from duelrank.interleave.checks import Document

__all__ = ["Shown"]


@dataclass(frozen=True)
class Shown:
    """One merged list, with all that `Comparison.record` needs: keep it, or its `to_dict`, until the clicks are known.

    Parameters
    ----------
    documents
        The documents to show, best first.
    rankings
        The ranking of each ranker.
    seed, number
        The random stream that made the list. `record` makes the list again from it, so that a manipulated list is detected.

    Examples
    --------
    >>> from duelrank import Comparison
    >>> comparison = Comparison(["old", "new"], seed=1)
    >>> shown = comparison.show({"old": ["a", "b", "c"], "new": ["c", "a", "b"]})
    >>> shown.documents
    ('a', 'c', 'b')
    """

    documents: tuple[Document, ...]
    rankings: dict[str, tuple[Document, ...]]
    seed: int
    number: int

    def to_dict(self) -> dict[str, Any]:
        """Return the list as JSON-compatible values, such as for a user's session."""
        rankings = {name: list(ranking) for name, ranking in self.rankings.items()}
        return {"documents": list(self.documents), "rankings": rankings, "seed": self.seed, "number": self.number}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Shown:
        """Restore a list from the values of `to_dict`; `Comparison.record` checks them."""
        try:
            rankings = {name: tuple(ranking) for name, ranking in data["rankings"].items()}
            return cls(tuple(data["documents"]), rankings, data["seed"], data["number"])
        except (LookupError, TypeError, AttributeError) as error:
            raise InvalidValue(f"this is not a stored list: {error!r}") from None
