"""dcmKL-UCB: the dependent click model with the bounds of KL-UCB."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.cascade_kl_ucb import CascadeKLUCB
from duelrank.core.registry import alias, register
from duelrank.core.types import Clicks
from duelrank.kernels.inference import last_click


@register
@dataclass(frozen=True, repr=False)
class DCMKLUCB(CascadeKLUCB):
    """The dependent click model with the bounds of KL-UCB: users may continue after a click, so every click counts.

    All documents down to the last click were examined. Below it the user either had left, or looked and found nothing, so nothing
    is learned there. Without a click all documents were examined. The paper puts the best documents at the positions where users
    are most likely to be satisfied; here that is the top.

    References
    ----------
    Katariya et al., "DCM bandits: learning to rank with multiple clicks" (ICML 2016).

    Examples
    --------
    Users click on documents 1 and 3, and continue after the first click; both are found:

    >>> from duelrank import Feedback, Learner, Query
    >>> learner, query = Learner("dcm-kl-ucb", n_features=1), Query("shoes", [[1.0]] * 5)
    >>> for _ in range(100):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback((shown.ranking == 1) | (shown.ranking == 3)))
    >>> sorted(learner.best(query)[:2].tolist())
    [1, 3]
    """

    def examined(self, clicks: Clicks) -> int:
        """Return the position of the last click, or the whole list."""
        return last_click(clicks) or clicks.shape[0]


alias("dcm-kl-ucb", DCMKLUCB())
