"""Assumes that the whole list was examined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.projection.base import Examination
from duelrank.registry import register
from duelrank.types import Feedback, Impression, Memory

__all__ = ["WholeList"]


@register
@dataclass(frozen=True, repr=False)
class WholeList(Examination):
    """Every shown position was examined.

    Examples
    --------
    For short lists that fit on a screen, whatever was clicked:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import WholeList
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> WholeList().weights({}, shown, Feedback([1, 0, 0, 0, 0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 for every position."""
        return np.ones(feedback.clicks.shape[0])
