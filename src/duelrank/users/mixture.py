"""Simulates a population of two kinds of users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

from duelrank.kernels.random import uniform
from duelrank.registry import Between, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.base import User
from duelrank.users.preset import Preset

__all__ = ["Mixture"]


@register
@dataclass(frozen=True, repr=False)
class Mixture(User):
    """Each list is shown to one of two users, chosen at random.

    Parameters
    ----------
    one, other
        The two users.
    share
        Probability of the other user.

    Examples
    --------
    Three in ten users click on a bad document:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import Cascade, Mixture
    >>> careful, careless = Cascade((0.0, 1.0), (0.0, 1.0)), Cascade((1.0, 1.0), (0.0, 0.0))
    >>> user = Mixture(careful, careless, share=0.3).for_grades(2)
    >>> sum(int(user.click(np.zeros(1, np.int8), stream(1, "user", n)).clicks[0]) for n in range(1000))
    291
    """

    one: User = Preset("navigational")
    other: User = Preset("informational")
    share: Annotated[float, Between(0.0, 1.0)] = 0.5

    def for_grades(self, n_grades: int) -> Self:
        """Return the mixture of both users for a number of grades."""
        return replace(self, one=self.one.for_grades(n_grades), other=self.other.for_grades(n_grades))

    def at(self, step: int) -> User:
        """Return the mixture of the two users at an impression."""
        one, other = self.one.at(step), self.other.at(step)
        return self if one is self.one and other is self.other else replace(self, one=one, other=other)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Choose a user at random, who then clicks with the rest of the stream."""
        return (self.other if uniform(stream) < self.share else self.one).click(shown, stream)
