"""CascadeKL-UCB: the cascade model with the bounds of KL-UCB."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duelrank.algorithms.cascade_ucb1 import CascadeUCB1
from duelrank.algorithms.click_bandit import Model
from duelrank.core.registry import alias, register
from duelrank.kernels.bandits import kl_ucb


@register
@dataclass(frozen=True, repr=False)
class CascadeKLUCB(CascadeUCB1):
    """The cascade model with the tighter bounds of KL-UCB: the largest q with examined · KL(rate ‖ q) ≤ log t + 3 log log t.

    If the right side is negative, for t up to 2, it counts as 0.

    References
    ----------
    Kveton et al., "Cascading bandits: learning to rank in the cascade model" (ICML 2015).

    Examples
    --------
    The number of 200 lists with the wanted document at the top; tighter bounds explore less:

    >>> from duelrank import Feedback, Learner, Query
    >>> for name in ("cascade-ucb1", "cascade-kl-ucb"):
    ...     learner, query, count = Learner(name, n_features=1), Query("shoes", [[1.0]] * 5), 0
    ...     for _ in range(200):
    ...         shown = learner.rank(query)
    ...         learner.learn(shown, Feedback(shown.ranking == 2))
    ...         count += int(shown.ranking[0] == 2)
    ...     print(name, count)
    cascade-ucb1 193
    cascade-kl-ucb 198
    """

    def bounds(self, model: Model, rounds: int) -> NDArray[np.float64]:
        """Return the bounds of KL-UCB."""
        bounds: NDArray[np.float64] = kl_ucb(model, rounds)
        return bounds


alias("cascade-kl-ucb", CascadeKLUCB())
