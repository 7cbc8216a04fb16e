"""Twins of the representations that learn nothing: the table of documents has their columns already."""

from __future__ import annotations

from typing import Any, ClassVar

from duelrank.lockstep.ranking import linear_scores
from duelrank.lockstep.twin import Twin, twin
from duelrank.lockstep.values import Memory, Numbers
from duelrank.representation import Fixed, QueryRanks, QueryScaled, Raw

__all__ = ["FixedTwin", "RepresentationTwin"]

Array = Any


class RepresentationTwin(Twin):
    """The twin of a representation: as `Representation`, for columns in rows, (columns of a feature, features)."""

    #: Whether it learns from the documents that it sees.
    learns: ClassVar[bool] = False
    #: Scores of documents, from what `scored` returns; a function of a module, so that all that share it share a program.
    scores: ClassVar[Any] = staticmethod(linear_scores)

    def each(self, lists: Any) -> Any:
        """Return how many columns each feature has after so many lists."""
        return 1

    def start(self, columns: Array, real: Any) -> Memory:
        """Return the memory before the first document."""
        return ()

    def apply(self, numbers: Numbers, features: Array, memory: Memory) -> Array:
        """Return the columns of documents, (…, columns of a feature, features)."""
        return features[..., None, :]

    def kept(self, weights: Array, memory: Memory) -> Any:
        """Return what a checkpoint needs to keep."""
        return weights

    def scored(self, numbers: Numbers, kept: Any) -> Any:
        """Return what `scores` needs of all checkpoints of all runs, (checkpoints, runs, …)."""
        return kept

    def trajectory(self, kept: Any) -> Array:
        """Return the weights at all checkpoints as weights of the last columns."""
        return kept


@twin(QueryScaled, QueryRanks, Raw, Fixed)
class FixedTwin(RepresentationTwin):
    """Nothing is left to do; what the numbers of `Fixed` do is in the table."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """The same for all."""
        return ("Fixed",)

    def numbers(self) -> dict[str, Any]:
        """Return nothing."""
        return {}
