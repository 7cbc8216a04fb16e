"""CascadeUCB1: the cascade model with the bounds of UCB1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.click_bandit import IndexBandit, Model
from duelrank.core.registry import alias, register
from duelrank.core.types import Clicks
from duelrank.kernels.bandits import ucb1


@register
@dataclass(frozen=True, repr=False)
class CascadeUCB1(IndexBandit):
    """The cascade model with the bounds of UCB1: clicks/examined + √(1.5 · log(t − 1) / examined).

    A user examines from the top and leaves with the first click, so documents above it were unattractive and nothing is known of
    those below; without a click all were unattractive.

    References
    ----------
    Kveton et al., "Cascading bandits: learning to rank in the cascade model" (ICML 2015).

    Examples
    --------
    By their features all documents are alike, but users who ask for shoes click on document 2:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner, query = Learner("cascade-ucb1", n_features=1), Query("shoes", [[1.0]] * 5)
    >>> for _ in range(50):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 2))
    >>> int(learner.best(query)[0])
    2
    """

    def bounds(self, model: Model, rounds: int) -> NDArray[np.float64]:
        """Return the bounds of UCB1."""
        bounds: NDArray[np.float64] = ucb1(model, rounds)
        return bounds

    def examined(self, clicks: Clicks) -> int:
        """Return the position of the first click, or the whole list."""
        first = int(clicks.argmax())
        return first + 1 if clicks[first] else clicks.shape[0]


alias("cascade-ucb1", CascadeUCB1())
