"""Defines the interface of metrics, such as ``nDCG@10``, which evaluate a list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeVar

from duelrank.registry import Between, Part, PartType
from duelrank.types import Labels

__all__ = ["Metric"]

M = TypeVar("M", bound="Metric")

_NO_CUTOFF = 1 << 31


class _CutByAt(PartType):
    """Allows the notation ``nDCG@10`` for ``nDCG(cutoff=10)`` on metric classes."""

    def __matmul__(cls, cutoff: int) -> Any:
        return cls(cutoff=cutoff)


@dataclass(frozen=True, repr=False)
class Metric(Part, ABC, metaclass=_CutByAt):
    """Evaluate a list by the grades of its documents; a grade above 0 is relevant.

    Parameters
    ----------
    cutoff
        Number of positions that count; None for all. The notation is ``nDCG@10``.
    """

    kind: ClassVar[str] = "metric"

    cutoff: Annotated[int, Between(1, 1_000_000)] | None = None

    @abstractmethod
    def of(self, shown: Labels, labels: Labels) -> float:
        """Evaluate one list, from the grades in the order shown and the grades of all documents of the query."""

    def __matmul__(self: M, cutoff: int) -> M:
        return replace(self, cutoff=cutoff)

    def __repr__(self) -> str:
        if self.cutoff is None:
            return super().__repr__()
        return f"{replace(self, cutoff=None)!r}@{self.cutoff}".replace("()@", "@")

    @property
    def depth(self) -> int:
        """The cutoff as a number for kernels."""
        return self.cutoff or _NO_CUTOFF
