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
    """Precision at each relevant document, averaged over all of the query's relevant ones; averaged over queries.

    Examples
    --------
    Both relevant documents are shown, first and third: precision is 1 at the one and 2/3 at the other.

    >>> import numpy as np
    >>> from duelrank.metrics import MAP
    >>> shown = np.array([1, 0, 1, 0], np.int8)
    >>> round(MAP().of(shown, labels=shown), 3)
    0.833
    """

    def of(self, shown: Labels, labels: Labels) -> float:
        """Return the average precision of one list."""
        return float(kernel.average_precision(shown, labels, self.depth))
