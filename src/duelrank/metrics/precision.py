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
    """Share of relevant documents in the first positions; missing positions of a list shorter than the cutoff are irrelevant.

    Examples
    --------
    Two of the first five documents are relevant:

    >>> import numpy as np
    >>> from duelrank.metrics import P
    >>> shown = np.array([1, 0, 0, 2, 0, 1], np.int8)
    >>> (P @ 5).of(shown, labels=shown)
    0.4
    """

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the precision of one list."""
        return float(kernel.precision(shown, self.cutoff or max(shown.shape[0], 1)))
