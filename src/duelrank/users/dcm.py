"""Simulates the user of the dependent click model, who may leave only after a click."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidRecipe
from duelrank.kernels import users as kernel
from duelrank.registry import Between, alias, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.click_model import ClickModel

__all__ = ["DCM"]


@register
@dataclass(frozen=True, repr=False)
class DCM(ClickModel):
    """Dependent clicks: scan from the top, click by grade; continue after a click at rank r with probability λ_r, else always.

    `examined` is the last rank that was evaluated: the rank of the click after which the user left, or the whole list.

    Parameters
    ----------
    like
        The user whose click probabilities are used.
    continuation
        λ from rank 1 down; the last one holds for all further ranks. The default, falling from 0.9 to 0.5, is a choice and
        not an estimate.

    References
    ----------
    Guo, Liu and Wang, "Efficient multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    All documents attract, and after each click half of the users leave:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import DCM
    >>> user = DCM(like="perfect", continuation=(0.5,)).for_grades(2)
    >>> lists = [user.click(np.ones(4, np.int8), stream(1, "user", n)).clicks for n in range(1000)]
    >>> np.mean(lists, axis=0).round(2).tolist()
    [1.0, 0.46, 0.23, 0.11]
    """

    continuation: tuple[Annotated[float, Between(0.0, 1.0)], ...] = (0.9, 0.8, 0.7, 0.6, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.continuation:
            raise InvalidRecipe(
                "DCM needs at least one probability to continue after a click, such as continuation=(0.5,)"
            )

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Scan the list until a click ends the session."""
        clicks, examined = kernel.cascade(shown, self.attraction, *self._stops, stream)
        if examined < 0:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _stops(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P(stop | rank, grade) after a click and without one."""
        clicked = np.repeat(1.0 - np.array(self.continuation)[:, None], self.attraction.size, axis=1)
        return clicked, np.zeros_like(clicked)


alias("dcm", DCM())
