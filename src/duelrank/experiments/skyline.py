"""Defines `Skyline`: the offline reference as a baseline of guarded runs."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.datasets import Dataset
from duelrank.experiments.reference import reference_for
from duelrank.registry import register
from duelrank.simulation import Baseline
from duelrank.types import Weights

__all__ = ["Skyline"]


@register
@dataclass(frozen=True, repr=False)
class Skyline(Baseline):
    """A linear LambdaRank that was trained on all labels of the fold: a production ranking that is hard to beat."""

    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Return the weights of the offline reference; it is trained on first use."""
        return reference_for(dataset, fold).weights
