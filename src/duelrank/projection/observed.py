"""Uses the examination that was actually observed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.projection.base import Examination, top
from duelrank.registry import register
from duelrank.types import Feedback, Impression, Memory

__all__ = ["Observed"]


@register
@dataclass(frozen=True, repr=False)
class Observed(Examination):
    """The first ``examined`` positions of the feedback were examined.

    In a simulation this is the oracle (the paper's DSP-GT); in production it needs viewport tracking.

    Examples
    --------
    The page reports that three results were on the screen:

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import Observed
    >>> shown = Impression(Query("shoes", np.ones((5, 1))), np.arange(5))
    >>> Observed().weights({}, shown, Feedback([1, 0, 0, 0, 0], examined=3)).tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 for each position that was examined."""
        if feedback.examined is None:
            raise InvalidValue("Observed() needs the number of examined positions: give Feedback(clicks, examined=...)")
        return top(feedback.examined, feedback.clicks.shape[0])
