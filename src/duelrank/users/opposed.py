"""The user who wants what others do not."""

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

    For a change of intent, see `IntentDrift`. A simulation goes on measuring by the labels of the data, so whoever learns
    from this user well scores badly.

    Parameters
    ----------
    base
        The user whose taste is turned around.
    n_grades
        Of the data; a simulation fills it in.
    """

    base: User = Preset()
    n_grades: Annotated[int, Between(1, 127)] | None = None

    def for_grades(self, n_grades: int) -> Self:
        """Return this user for that many grades."""
        return replace(self, base=self.base.for_grades(n_grades), n_grades=n_grades)

    def at(self, step: int) -> User:
        """Return the opposite of whoever the base is at that impression."""
        base = self.base.at(step)
        return self if base is self.base else replace(self, base=base)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Let the base click on turned grades."""
        if self.n_grades is None:
            raise InvalidValue(f"first choose the grades: {self!r}.for_grades(3).click(...)")
        return self.base.click(self.n_grades - 1 - shown, stream)
