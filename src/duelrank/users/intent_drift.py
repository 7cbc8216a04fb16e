"""Users who change while the learner learns."""

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
    """One user at first, another one later: at once, or by a share of the users that grows with every impression.

    With `Opposed` as the later user, what is relevant changes; with a user of the same taste, only how it clicks. A simulation goes
    on measuring by the labels of the data: after a change of what is relevant, its metrics say how much of
    the old intent is still served, not how well the new one is.

    Parameters
    ----------
    before, after
        Who clicks before and after the change.
    start
        The number of the first impression, from 0, that is not all of the user before.
    over
        For how many impressions both kinds of users come; 0: the change is sudden.
    """

    before: User = Preset()
    after: User = Opposed()
    start: Annotated[int, Between(0)] = 5_000
    over: Annotated[int, Between(0)] = 0

    def for_grades(self, n_grades: int) -> Self:
        """Return the drift between both users for that many grades."""
        return replace(self, before=self.before.for_grades(n_grades), after=self.after.for_grades(n_grades))

    def at(self, step: int) -> User:
        """Return the user of that impression; while both come, their mixture, whose share of the later one is the progress made."""
        if step < self.start:
            return self.before.at(step)
        if step >= self.start + self.over:
            return self.after.at(step)
        share = (step - self.start + 1) / (self.over + 1)
        return Mixture(self.before.at(step), self.after.at(step), share)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Refuse: the number of the impression decides who clicks."""
        raise InvalidValue(f"first choose the impression: {self!r}.at(0).click(...)")
