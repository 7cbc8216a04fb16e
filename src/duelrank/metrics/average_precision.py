"""Mean average precision."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.kernels import metrics as kernel
from duelrank.metrics.base import Metric
from duelrank.registry import register
from duelrank.types import Labels

__all__ = ["MAP"]


@register
@dataclass(frozen=True, repr=False)
class MAP(Metric):
    """Precision at each relevant document, averaged over all of the query's relevant ones; averaged over queries."""

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the average precision of one list."""
        return float(kernel.average_precision(shown, labels, self.depth))
