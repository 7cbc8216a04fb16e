"""Simulates a user with opposite preferences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

from duelrank.errors import InvalidValue
from duelrank.registry import Between, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.base import User
from duelrank.users.preset import Preset

__all__ = ["Opposed"]


@register
@dataclass(frozen=True, repr=False)
class Opposed(User):
    """Click as another user would if grade g were n − 1 − g: what was most relevant is now least, and the reverse.

    For a change of intent, see `IntentDrift`. A simulation evaluates by the labels of the data, so an algorithm that learns well
    from this user has bad metrics.

    Parameters
    ----------
    base
        The user whose preferences are reversed.
    n_grades
        Number of grades in the data; a simulation sets it.

    Examples
    --------
    Clicks go to what the data calls irrelevant:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import Opposed
    >>> clicks = Opposed("perfect").for_grades(3).click(np.array([2, 0, 2, 0], np.int8), stream(1, "user")).clicks
    >>> clicks.nonzero()[0].tolist()
    [1, 3]
    """

    base: User = Preset()
    n_grades: Annotated[int, Between(1, 127)] | None = None

    def for_grades(self, n_grades: int) -> Self:
        """Return this user for a number of grades."""
        return replace(self, base=self.base.for_grades(n_grades), n_grades=n_grades)

    def at(self, step: int) -> User:
        """Return the opposite of the base at an impression."""
        base = self.base.at(step)
        return self if base is self.base else replace(self, base=base)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Let the base click on reversed grades."""
        if self.n_grades is None:
            raise InvalidValue(f"the number of grades is not set; use {self!r}.for_grades(3).click(...)")
        return self.base.click(self.n_grades - 1 - shown, stream)
