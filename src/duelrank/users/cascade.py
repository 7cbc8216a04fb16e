"""Simulates the cascade user, who scans from the top, clicks or not, and continues or stops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidRecipe, InvalidValue
from duelrank.kernels import users as kernel
from duelrank.registry import Between, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.base import User

__all__ = ["Cascade"]


@register
@dataclass(frozen=True, repr=False)
class Cascade(User):
    """Scan from the top; at each document click with P(click | grade), then stop with P(stop | grade).

    Parameters
    ----------
    click_probability, stop_probability
        One probability per grade, from grade 0 up.
    stop_without_click
        Whether the user may stop after a document that was not clicked, as in the paper ("after evaluating each document, the
        user must decide whether or not to continue"). False is the textbook rule: stop only after a click.

    References
    ----------
    Craswell et al., "An experimental comparison of click position-bias models" (WSDM 2008); Guo, Liu and Wang, "Efficient
    multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    This user clicks on every relevant document, and leaves with the first click:

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import Cascade
    >>> user = Cascade(click_probability=(0.0, 1.0), stop_probability=(0.0, 1.0))
    >>> feedback = user.click(np.array([0, 1, 0, 1], np.int8), stream(1, "user"))
    >>> feedback.clicks.tolist(), feedback.examined
    ([False, True, False, False], 2)
    """

    click_probability: tuple[Annotated[float, Between(0.0, 1.0)], ...] = (0.05, 0.5, 0.95)
    stop_probability: tuple[Annotated[float, Between(0.0, 1.0)], ...] = (0.2, 0.5, 0.9)
    stop_without_click: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.click_probability) != len(self.stop_probability) or not self.click_probability:
            raise InvalidRecipe(
                "Cascade needs one click and one stop probability per grade, got "
                f"{len(self.click_probability)} and {len(self.stop_probability)}"
            )

    def for_grades(self, n_grades: int) -> Cascade:
        """Return this user if its probabilities cover the grades."""
        if n_grades > len(self.click_probability):
            covered = len(self.click_probability)
            raise InvalidValue(f"{self!r} has probabilities for {covered} grades, but the data has {n_grades}")
        return self

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Scan the list from the top; `examined` is the number of positions evaluated before stopping."""
        clicks, examined = kernel.cascade(shown, *self._tables, stream)
        if examined < 0:
            covered = len(self.click_probability)
            raise InvalidValue(f"{self!r} has probabilities for grades 0 to {covered - 1}, got {shown.tolist()}")
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return P(click | grade), and P(stop | rank, grade) after a click and without one, equal at all ranks."""
        stop = np.array([self.stop_probability])
        return np.array(self.click_probability), stop, stop if self.stop_without_click else np.zeros_like(stop)
