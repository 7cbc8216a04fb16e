"""Precision."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.kernels import metrics as kernel
from duelrank.metrics.base import Metric
from duelrank.registry import register
from duelrank.types import Labels

__all__ = ["P"]


@register
@dataclass(frozen=True, repr=False)
class P(Metric):
    """Share of relevant documents in the first positions; missing positions of a list shorter than the cutoff are irrelevant."""

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the precision of one list."""
        return float(kernel.precision(shown, self.cutoff or max(shown.shape[0], 1)))
