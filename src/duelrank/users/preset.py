"""Defines the standard simulated users of the literature, for data with 2, 3 or 5 grades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from duelrank.errors import InvalidValue
from duelrank.registry import alias, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.base import User
from duelrank.users.cascade import Cascade

__all__ = ["Preset"]

Probabilities = tuple[float, ...]

# behaviour -> number of grades -> P(click | grade), P(stop | grade)
BEHAVIOURS: dict[str, dict[int, tuple[Probabilities, Probabilities]]] = {
    "perfect": {
        2: ((0.0, 1.0), (0.0, 0.0)),
        3: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        5: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    },
    "navigational": {
        2: ((0.05, 0.95), (0.2, 0.9)),
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        2: ((0.4, 0.9), (0.1, 0.5)),
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
    "almost-random": {
        2: ((0.4, 0.6), (0.5, 0.5)),
        3: ((0.4, 0.5, 0.6), (0.5, 0.5, 0.5)),
        5: ((0.4, 0.45, 0.5, 0.55, 0.6), (0.5, 0.5, 0.5, 0.5, 0.5)),
    },
}


@register
@dataclass(frozen=True, repr=False)
class Preset(User):
    """A standard cascade user of the literature; its probabilities depend on the number of grades in the data.

    Parameters
    ----------
    behaviour
        perfect (clicks by relevance, reads all), navigational (wants one good document), informational (clicks a lot,
        also on irrelevant documents) or almost-random.
    stop_without_click
        As in `Cascade`.

    Examples
    --------
    Clicks on 1,000 lists with a bad document first and a good one second:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import Preset
    >>> for behaviour in ("perfect", "navigational", "almost-random"):
    ...     user = Preset(behaviour).for_grades(2)
    ...     lists = [user.click(np.array([0, 1], np.int8), stream(1, "user", n)).clicks for n in range(1000)]
    ...     print(behaviour, sum(lists, np.zeros(2, int)).tolist())
    perfect [0, 1000]
    navigational [52, 753]
    almost-random [385, 282]
    """

    behaviour: Literal["perfect", "navigational", "informational", "almost-random"] = "navigational"
    stop_without_click: bool = True

    def for_grades(self, n_grades: int) -> Cascade:
        """Return the cascade user with the probabilities of this behaviour for a number of grades."""
        tables = BEHAVIOURS[self.behaviour]
        if n_grades not in tables:
            known = ", ".join(map(str, tables))
            raise InvalidValue(f"{self.behaviour} users are defined for {known} grades, but the data has {n_grades}")
        click, stop = tables[n_grades]
        return Cascade(click, stop, self.stop_without_click)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Raise an error: the probabilities depend on the number of grades."""
        raise InvalidValue(f"the number of grades is not set; use {self!r}.for_grades(3).click(...)")


for _behaviour in BEHAVIOURS:
    alias(_behaviour, Preset(behaviour=_behaviour))  # type: ignore[arg-type]  # the keys are the literals
