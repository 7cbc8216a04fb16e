"""What every data set is: a recipe that opens as folds of labelled queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.datasets.split import Fold
from duelrank.registry import Part

__all__ = ["Dataset"]


@dataclass(frozen=True, repr=False)
class Dataset(Part, ABC):
    """Where queries come from; `fold` opens them, and opening is cheap once a cache exists."""

    kind: ClassVar[str] = "dataset"

    @property
    @abstractmethod
    def n_folds(self) -> int:
        """How many folds there are; they are numbered from 1."""

    @abstractmethod
    def fold(self, number: int = 1) -> Fold:
        """Open one fold."""
