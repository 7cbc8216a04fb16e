"""DP-DBGD: dual-point dueling bandit gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.exploration import Exploration, OppositePair
from duelrank.inference import BestWinner, Inference


@register
@dataclass(frozen=True, repr=False)
class DPDBGD(DuelingBandit):
    """Dual-point dueling bandit gradient descent: the current ranker against w + δu and w − δu, all three in one list.

    Both candidates may beat the current ranker. The mean of the two would be zero and the comparison wasted, so only the one with
    more credit wins. The three rankings are merged by probabilistic multileaving, as for the other algorithms here, instead of the
    paper's contextual interleaving.

    References
    ----------
    Zhao and King, "Constructing reliable gradient exploration for online learning to rank" (CIKM 2016).

    Examples
    --------
    Users want document 1. The two candidates of a list are opposites of each other, so one of them is right:

    >>> from duelrank import Feedback, Learner, Query
    >>> query = Query("shoes", [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> learner = Learner("dp-dbgd", n_features=2, seed=3)
    >>> for _ in range(20):
    ...     shown = learner.rank(query)
    ...     learner.learn(shown, Feedback(shown.ranking == 1))
    >>> shown.trace["directions"].sum(axis=0).tolist(), learner.best(query).tolist()
    ([0.0, 0.0], [1, 2, 0])
    """

    exploration: Exploration = OppositePair()
    inference: Inference = BestWinner()


alias("dp-dbgd", DPDBGD())
