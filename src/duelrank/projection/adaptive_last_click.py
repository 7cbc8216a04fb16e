"""Examination inferred from the lowest click, and from how far users have gone on after one so far."""

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

_GAPS = 30  # with a column of their own; longer ones share the last
_BELIEF = 10.0  # how many chances the start is worth in each column


@register
@dataclass(frozen=True, repr=False)
class AdaptiveLastClick(Examination):
    """`LastClick` whose k is learned: positions beyond the lowest click count while they were seen probably enough.

    Users who go on after a click do click again now and then; those who stop do not. The rate of clicks at each distance below a
    click, against the rate where no click came before (those users are taken to look at everything), gives the probability that
    a position at that distance was seen although it was not clicked. No feature is looked at, and attraction is taken to be alike
    everywhere: in a well sorted list lower documents attract less, so k rather errs to the small side.

    Parameters
    ----------
    level
        The least probability of having been seen.
    beyond
        The k to start with; it is worth a few clicks' evidence.
    forgetting
        How much earlier evidence counts after a new piece: 0.999 remembers about the last thousand, 1 all of it.
    """

    level: Annotated[float, Between(0.0, 1.0)] = 0.25
    beyond: Annotated[int, Between(0, 10_000)] = 3
    forgetting: Annotated[float, Between(0.0, 1.0)] = 0.999

    def weights(self, memory: Memory, impression: Impression, feedback: Feedback) -> NDArray[np.float64]:
        """Return 1 down to the last click and as far beyond as users go by now."""
        last, shown = last_click(feedback.clicks), feedback.clicks.shape[0]
        gaps = memory.get("examination_gaps", self._prior)
        return top(last + kernel.reach(gaps, shown - last, self.level) if last else 0, shown)

    def observe(self, memory: Memory, impression: Impression, feedback: Feedback) -> Memory:
        """Count how far it was from click to click."""
        gaps = kernel.count_gaps(feedback.clicks, memory.get("examination_gaps", self._prior), self.forgetting)
        return {**memory, "examination_gaps": gaps}

    @cached_property
    def _prior(self) -> NDArray[np.float64]:
        """Half of all seen documents are clicked, and all are seen down to the k to start with."""
        gaps = np.full((2, _GAPS + 1), _BELIEF)
        gaps[0] = np.where(np.arange(_GAPS + 1) <= self.beyond, 0.5 * _BELIEF, 0.0)
        return gaps
