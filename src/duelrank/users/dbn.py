"""The dynamic-Bayesian-network user: leaves when satisfied, or when patience ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.kernels import users as kernel
from duelrank.registry import Between, alias, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.click_model import ClickModel

__all__ = ["DBN"]


@register
@dataclass(frozen=True, repr=False)
class DBN(ClickModel):
    """Dynamic Bayesian network: click what attracts, leave when it satisfies, else go on with perseverance γ.

    Satisfaction is never seen, so its coin and that of perseverance are one: the user stops with 1 − γ(1 − satisfaction) after a
    click, and with 1 − γ without one. `examined` is the last rank that was evaluated.

    Parameters
    ----------
    like
        Whose probabilities are used: to click as attraction, to stop as satisfaction.
    perseverance
        γ: how likely a user goes on who is not satisfied.

    References
    ----------
    Chapelle and Zhang, "A dynamic Bayesian network click model for web search ranking" (WWW 2009).
    """

    perseverance: Annotated[float, Between(0.0, 1.0)] = 0.9

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Walk down the list until satisfied or out of patience."""
        clicks, examined = kernel.cascade(shown, self.attraction, *self._stops, stream)
        if examined < 0:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _stops(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P(stop | rank, grade) after a click and without one: the same at all ranks."""
        clicked = 1.0 - self.perseverance * (1.0 - self.satisfaction[None, :])
        return clicked, np.full_like(clicked, 1.0 - self.perseverance)


alias("dbn", DBN())
