"""Infers examination from the lowest click, and from how far users have continued after clicks so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels import gaps as kernel
from duelrank.kernels.inference import last_click
from duelrank.projection.base import Examination, top
from duelrank.registry import Between, register
from duelrank.types import Feedback, Impression, Memory

__all__ = ["AdaptiveLastClick"]

_GAPS = 30  # number of distances with their own column; longer distances share the last column
_BELIEF = 10.0  # weight of the prior in each column, in observations


@register
@dataclass(frozen=True, repr=False)
class AdaptiveLastClick(Examination):
    """`LastClick` with a learned k: positions beyond the lowest click count if the probability that they were seen is high enough.

    Users who continue after a click sometimes click again; those who stop do not. The click rate at each distance below a click,
    relative to the click rate where no click came before (those users are assumed to examine everything), gives the probability
    that a position at that distance was seen although it was not clicked. The model ignores features and assumes that all documents
    are equally attractive: in a well sorted list lower documents attract less, so k tends to be too small.

    Parameters
    ----------
    level
        The minimum probability of having been seen.
    beyond
        The initial k; it counts as much as a few observed clicks.
    forgetting
        Factor on the weight of earlier observations after each new one: 0.999 remembers about the last thousand, 1 all of them.

    Examples
    --------
    How many positions a click on the first makes seen: at the start, and after 300 users who clicked nothing else.

    >>> import numpy as np
    >>> from duelrank import Feedback, Impression, Query
    >>> from duelrank.projection import AdaptiveLastClick
    >>> shown, clicks = Impression(Query("shoes", np.ones((8, 1))), np.arange(8)), Feedback(np.arange(8) == 0)
    >>> examination, memory, counts = AdaptiveLastClick(), {}, []
    >>> for _ in range(300):
    ...     counts.append(int(examination.weights(memory, shown, clicks).sum()))
    ...     memory = examination.observe(memory, shown, clicks)
    >>> counts[0], counts[-1]
    (4, 1)
    """

    level: Annotated[float, Between(0.0, 1.0, tuned=(0.0, 1.0))] = 0.25
    beyond: Annotated[int, Between(0, 10_000, tuned=(0, 9))] = 3
    forgetting: Annotated[float, Between(0.0, 1.0)] = 0.999

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 down to the last click and the learned number of positions beyond it."""
        last, shown = last_click(feedback.clicks), feedback.clicks.shape[0]
        gaps = memory.get("examination_gaps", self._prior)
        return top(last + kernel.reach(gaps, shown - last, self.level) if last else 0, shown)

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Count the distances between clicks."""
        gaps = kernel.count_gaps(feedback.clicks, memory.get("examination_gaps", self._prior), self.forgetting)
        return {**memory, "examination_gaps": gaps}

    @cached_property
    def _prior(self) -> NDArray[np.float64]:
        """Return the prior: half of all seen documents are clicked, and all are seen down to the initial k."""
        gaps = np.full((2, _GAPS + 1), _BELIEF)
        gaps[0] = np.where(np.arange(_GAPS + 1) <= self.beyond, 0.5 * _BELIEF, 0.0)
        return gaps
