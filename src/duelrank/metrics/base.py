"""What every metric is: a value such as ``nDCG@10`` that measures a list."""

from __future__ import annotations

from abc import ABC, ABCMeta, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeVar

from duelrank.registry import Between, Part
from duelrank.types import Labels

__all__ = ["Metric"]

M = TypeVar("M", bound="Metric")

_NO_CUTOFF = 1 << 31


class _CutByAt(ABCMeta):
    """Lets a metric class be cut like its instances: ``nDCG@10`` is ``nDCG(cutoff=10)``."""

    def __matmul__(cls, cutoff: int) -> Any:
        return cls(cutoff=cutoff)


@dataclass(frozen=True, repr=False)
class Metric(Part, ABC, metaclass=_CutByAt):
    """Measure a list by the grades of its documents; a grade above 0 is relevant.

    Parameters
    ----------
    cutoff
        How many positions count; None for all. Written with an ``@``: ``nDCG@10``.
    """

    kind: ClassVar[str] = "metric"

    cutoff: Annotated[int, Between(1, 1_000_000)] | None = None

    @abstractmethod
    def of(self, shown: Labels, labels: Labels) -> float:
        """Measure one list: the grades as shown, best first, and the grades of all the query's documents."""

    def __matmul__(self: M, cutoff: int) -> M:
        return replace(self, cutoff=cutoff)

    def __repr__(self) -> str:
        if self.cutoff is None:
            return super().__repr__()
        return f"{replace(self, cutoff=None)!r}@{self.cutoff}".replace("()@", "@")

    @property
    def depth(self) -> int:
        """The cutoff as a number that kernels can compare with."""
        return self.cutoff or _NO_CUTOFF
