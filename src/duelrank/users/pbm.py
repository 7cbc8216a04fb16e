"""Simulates the user of the position-based model, in which the position decides whether a document is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from duelrank.kernels import users as kernel
from duelrank.registry import Between, alias, register
from duelrank.types import Feedback, Labels, Stream
from duelrank.users.click_model import ClickModel

__all__ = ["PBM"]


@register
@dataclass(frozen=True, repr=False)
class PBM(ClickModel):
    """Position-based model: examine rank r with probability 1/r^η, independently; click examined documents by their grade.

    P(click at rank r) = r^−η · P(click | grade). The examined positions need not be the first ones, so the feedback has
    no `examined` depth, and `Observed` cannot be used with this user.

    Parameters
    ----------
    like
        The user whose click probabilities are used.
    decay
        η: 0 sees everything; 1 is the usual choice of simulations.

    References
    ----------
    Richardson, Dominowska and Ragno, "Predicting clicks" (WWW 2007); Joachims, Swaminathan and Schnabel, "Unbiased
    learning-to-rank with biased feedback" (WSDM 2017), for the form of P(examine).

    Examples
    --------
    Five documents of the highest grade: only positions differ.

    >>> import numpy as np
    >>> from duelrank.randomness import stream
    >>> from duelrank.users import PBM
    >>> user = PBM(like="perfect").for_grades(2)
    >>> lists = [user.click(np.ones(5, np.int8), stream(1, "user", n)).clicks for n in range(1000)]
    >>> np.mean(lists, axis=0).round(2).tolist()
    [1.0, 0.54, 0.33, 0.25, 0.21]
    """

    decay: Annotated[float, Between(0)] = 1.0

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Decide on each position independently."""
        clicks, covered = kernel.browse(shown, self.attraction, self.decay, self.decay, False, stream)
        if not covered:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, None)


alias("pbm", PBM())
