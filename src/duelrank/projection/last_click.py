"""Infers examination from the lowest click."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels.inference import last_click
from duelrank.projection.base import Examination, top
from duelrank.registry import Between, register
from duelrank.types import Feedback, Impression, Memory

__all__ = ["LastClick"]


@register
@dataclass(frozen=True, repr=False)
class LastClick(Examination):
    """All positions down to the lowest click were examined, and a few beyond; none if there was no click.

    Parameters
    ----------
    beyond
        Number of positions after the lowest click (the paper's k). The published code ends one earlier than the paper's text:
        ``beyond=2`` reproduces it.

    References
    ----------
    Joachims et al., "Accurately interpreting clickthrough data as implicit feedback" (SIGIR 2005).

    Examples
    --------
    The second of seven documents was clicked: the user has seen it, the one above, and probably three more.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import LastClick
    >>> shown = Impression(Query("shoes", np.ones((7, 1))), np.arange(7))
    >>> LastClick(beyond=3).weights({}, shown, Feedback([0, 1, 0, 0, 0, 0, 0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """

    beyond: Annotated[int, Between(0, 10_000, tuned=(0, 9))] = 3

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 down to the last click + beyond."""
        last = last_click(feedback.clicks)
        return top(last + self.beyond if last else 0, feedback.clicks.shape[0])
