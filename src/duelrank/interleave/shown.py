"""A list that was shown, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duelrank.errors import InvalidValue
from duelrank.interleave.checks import Document

__all__ = ["Shown"]


@dataclass(frozen=True)
class Shown:
    """One merged list, and all that is needed to judge it later: keep it, or its `to_dict`, until the clicks are known.

    Parameters
    ----------
    documents
        What to show, best first.
    rankings
        What each ranker had returned.
    seed, number
        Which draws made the list. It is made again when it is recorded, so that a stored list cannot claim to be what it is not.
    """

    documents: tuple[Document, ...]
    rankings: dict[str, tuple[Document, ...]]
    seed: int
    number: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, such as for a user's session."""
        rankings = {name: list(ranking) for name, ranking in self.rankings.items()}
        return {"documents": list(self.documents), "rankings": rankings, "seed": self.seed, "number": self.number}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Shown:
        """Make the list that `to_dict` was called on; what it says is checked when it is recorded."""
        try:
            rankings = {name: tuple(ranking) for name, ranking in data["rankings"].items()}
            return cls(tuple(data["documents"]), rankings, data["seed"], data["number"])
        except (LookupError, TypeError, AttributeError) as error:
            raise InvalidValue(f"this is not a list that was shown: {error!r}") from None
