"""Mean reciprocal rank."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.kernels import metrics as kernel
from duelrank.metrics.base import Metric
from duelrank.registry import register
from duelrank.types import Labels

__all__ = ["MRR"]


@register
@dataclass(frozen=True, repr=False)
class MRR(Metric):
    """1 / position of the first relevant document, 0 if there is none; averaged over queries.

    Examples
    --------
    The first relevant document is third:

    >>> import numpy as np
    >>> from duelrank.metrics import MRR
    >>> shown = np.array([0, 0, 1, 1], np.int8)
    >>> round(MRR().of(shown, labels=shown), 3)
    0.333
    """

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the reciprocal rank of one list."""
        return float(kernel.reciprocal_rank(shown, self.depth))
