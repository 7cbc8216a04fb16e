"""C-MGD: cascading multileave gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.exploration import Exploration, SpeedThenQuality


@register
@dataclass(frozen=True, repr=False)
class CMGD(DuelingBandit):
    """Cascading multileave gradient descent: Sim-MGD while that makes progress, then MGD from the same weights.

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).

    Examples
    --------
    At first it learns similarities to documents; before the end of this run it has switched to all features:

    >>> from duelrank import simulate
    >>> record = simulate("c-mgd", "synthetic(n_queries=40)", "perfect", impressions=1000)
    >>> "cascaded" in record.learner.state.memory["exploration"]
    True
    >>> float(record.offline[-1].round(2))
    0.88
    """

    exploration: Exploration = SpeedThenQuality()


alias("c-mgd", CMGD())
