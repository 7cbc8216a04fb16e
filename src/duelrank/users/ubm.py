"""Simulates the user of the user browsing model, in which examination depends on the distance to the last click."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import users as kernel
from duelrank.registry import Between, alias, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.click_model import ClickModel

__all__ = ["UBM"]


@register
@dataclass(frozen=True, repr=False)
class UBM(ClickModel):
    """User browsing: whether rank r is examined depends on r and on how far above it the last click was.

    P(click at rank r) = γ · P(click | grade). The model has one free γ per rank and distance d to the last click; here they
    follow a formula: γ = r^−η while nothing is clicked, and ((r − d + 1) / r)^ρ after a click d ranks above: 1 just below
    it, less the further away, and less steeply so far down the list. The examined positions need not be the first ones,
    so the feedback has no `examined` depth, and `Observed` cannot be used with this user.

    Parameters
    ----------
    like
        The user whose click probabilities are used.
    decay
        η, before the first click.
    decay_clicked
        ρ, after a click. The defaults are near the values from a search log that simulations of unbiased learning to
        rank use: 0.07 away on average over ten ranks.

    References
    ----------
    Dupret and Piwowarski, "A user browsing model to predict search engine click data from past observations" (SIGIR 2008).

    Examples
    --------
    After a click users look at what follows: the last document is clicked more often if the one above it is good, too.

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import UBM
    >>> user = UBM(like="perfect").for_grades(2)
    >>> for above in (0, 1):
    ...     shown = np.array([0, 0, 0, above, 1], np.int8)
    ...     print(above, np.mean([user.click(shown, stream(1, "user", n)).clicks[4] for n in range(1000)]).round(2))
    0 0.54
    1 0.81
    """

    decay: Annotated[float, Between(0)] = 0.4
    decay_clicked: Annotated[float, Between(0)] = 1.3

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Decide on each position, given the last click above it."""
        clicks, covered = kernel.browse(shown, self.attraction, self.decay, self.decay_clicked, True, stream)
        if not covered:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, None)


alias("ubm", UBM())
