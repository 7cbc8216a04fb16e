"""Simulates users whose behaviour changes during a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

from duelrank.errors import InvalidValue
from duelrank.registry import Between, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.base import User
from duelrank.users.mixture import Mixture
from duelrank.users.opposed import Opposed
from duelrank.users.preset import Preset

__all__ = ["IntentDrift"]


@register
@dataclass(frozen=True, repr=False)
class IntentDrift(User):
    """One user first, another user later: the change is sudden, or the share of the later user grows with every impression.

    With `Opposed` as the later user, the relevance changes; with a user of the same preferences, only the click behaviour. A
    simulation continues to evaluate by the labels of the data: after a change of relevance, its metrics show how much of the old
    intent is still served, not how well the new one is.

    Parameters
    ----------
    before, after
        The users before and after the change.
    start
        The number, from 0, of the first impression at which the later user may click.
    over
        Number of impressions of the transition, in which both users occur; 0: the change is sudden.

    Examples
    --------
    From list 100 on users want the opposite:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import IntentDrift
    >>> users, shown = IntentDrift("perfect", "Opposed(perfect)", start=100).for_grades(2), np.array([0, 1], np.int8)
    >>> [int(users.at(n).click(shown, stream(1, "user", n)).clicks.argmax()) for n in (99, 100)]  # the clicked place
    [1, 0]
    """

    before: User = Preset()
    after: User = Opposed()
    start: Annotated[int, Between(0)] = 5_000
    over: Annotated[int, Between(0)] = 0

    def for_grades(self, n_grades: int) -> Self:
        """Return the drift between both users for a number of grades."""
        return replace(self, before=self.before.for_grades(n_grades), after=self.after.for_grades(n_grades))

    def at(self, step: int) -> User:
        """Return the user at an impression; during the transition a mixture, in which the share of the later user grows."""
        if step < self.start:
            return self.before.at(step)
        if step >= self.start + self.over:
            return self.after.at(step)
        share = (step - self.start + 1) / (self.over + 1)
        return Mixture(self.before.at(step), self.after.at(step), share)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Raise an error: the user depends on the number of the impression."""
        raise InvalidValue(f"the impression is not set; use {self!r}.at(0).click(...)")
