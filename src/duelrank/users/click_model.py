"""Defines the base class of click models, which take their probabilities per grade from another user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.types import Labels
from duelrank.users.base import User
from duelrank.users.cascade import Cascade
from duelrank.users.preset import Preset

__all__ = ["ClickModel"]


@dataclass(frozen=True, repr=False)
class ClickModel(User):
    """A user with the click probabilities of another user, and its own way to examine the list.

    Parameters
    ----------
    like
        The user whose probabilities per grade are used: one of the standard users, which define them for 2, 3 and 5 grades, or a
        `Cascade` with explicit probabilities. How that user scans a list does not matter.
    """

    # Only the tables of the other user count, not its rule for stopping.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"like.stop_without_click"})

    like: Preset | Cascade = Preset()

    def for_grades(self, n_grades: int) -> Self:
        """Return this user with the probabilities for a number of grades."""
        return replace(self, like=self.like.for_grades(n_grades))

    @cached_property
    def attraction(self) -> NDArray[np.float64]:
        """P(click | grade) of a document that is examined."""
        return np.array(self._chosen.click_probability)

    @cached_property
    def satisfaction(self) -> NDArray[np.float64]:
        """P(stop | grade) after a click."""
        return np.array(self._chosen.stop_probability)

    @property
    def _chosen(self) -> Cascade:
        if isinstance(self.like, Preset):
            raise InvalidValue(f"the number of grades is not set; use {self!r}.for_grades(3).click(...)")
        return self.like

    def _refusal(self, shown: Labels) -> InvalidValue:
        covered = self.attraction.size
        return InvalidValue(f"{self!r} has probabilities for grades 0 to {covered - 1}, got {shown.tolist()}")
