"""Simulates the user of the dynamic Bayesian network model, who leaves when satisfied or out of patience."""

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
    """Dynamic Bayesian network: click attractive documents, leave if satisfied, else continue with perseverance γ.

    Satisfaction is not observable, so one random draw decides on satisfaction and perseverance: the user stops with probability
    1 − γ(1 − satisfaction) after a click, and 1 − γ without one. `examined` is the last rank that was evaluated.

    Parameters
    ----------
    like
        The user whose click probabilities are the attraction, and whose stop probabilities are the satisfaction.
    perseverance
        γ: probability that an unsatisfied user continues.

    References
    ----------
    Chapelle and Zhang, "A dynamic Bayesian network click model for web search ranking" (WWW 2009).

    Examples
    --------
    The good document is last. Impatient users seldom get there:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import DBN
    >>> for perseverance in (0.5, 0.9):
    ...     user, shown = DBN("perfect", perseverance).for_grades(2), np.array([0, 0, 0, 1], np.int8)
    ...     lists = [user.click(shown, stream(1, "user", n)).clicks for n in range(1000)]
    ...     print(perseverance, np.mean(lists, axis=0).round(2).tolist())
    0.5 [0.0, 0.0, 0.0, 0.11]
    0.9 [0.0, 0.0, 0.0, 0.72]
    """

    perseverance: Annotated[float, Between(0.0, 1.0)] = 0.9

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Scan the list until satisfied or out of patience."""
        clicks, examined = kernel.cascade(shown, self.attraction, *self._stops, stream)
        if examined < 0:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _stops(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P(stop | rank, grade) after a click and without one, equal at all ranks."""
        clicked = 1.0 - self.perseverance * (1.0 - self.satisfaction[None, :])
        return clicked, np.full_like(clicked, 1.0 - self.perseverance)


alias("dbn", DBN())
