"""Defines the interface of simulated users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from duelrank.registry import Part
from duelrank.types import Feedback, Labels, Stream

__all__ = ["User"]


@dataclass(frozen=True, repr=False)
class User(Part, ABC):
    """A simulated user, who clicks on lists whose labels are known to the simulation."""

    kind: ClassVar[str] = "user"

    @abstractmethod
    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Return clicks on a list, given the grade of each shown document."""

    def for_grades(self, n_grades: int) -> User:
        """Return this user with its behaviour on data with grades 0 to n_grades − 1."""
        return self

    def at(self, step: int) -> User:
        """Return the user at one impression, numbered from 0; call `for_grades` first. Most users never change."""
        return self
