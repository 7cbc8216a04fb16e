"""Defines `Skyline`: the offline reference as a baseline of guarded runs."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.core.registry import register
from duelrank.core.types import Weights
from duelrank.datasets import Dataset
from duelrank.experiments.reference import reference_for
from duelrank.simulation import Baseline

__all__ = ["Skyline"]


@register
@dataclass(frozen=True, repr=False)
class Skyline(Baseline):
    """A linear LambdaRank that was trained on all labels of the fold: a production ranking that is hard to beat.

    Examples
    --------
    How far is there to go? This ranker knows the labels of all training queries, which no user tells:

    >>> from duelrank import Synthetic, evaluate
    >>> from duelrank.experiments import Skyline
    >>> from duelrank.core.randomness import stream
    >>> data = Synthetic(n_queries=40, n_features=20)
    >>> weights = Skyline().weights(data, fold=1)
    >>> round(evaluate(weights, data.fold(1).test, "nDCG@10", stream(1, "ties")), 2)
    0.94
    """

    def weights(self, dataset: Dataset, fold: int) -> Weights:
        """Return the weights of the offline reference; it is trained on first use."""
        return reference_for(dataset, fold).weights
