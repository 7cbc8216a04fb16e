"""NSGD: null space gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.exploration import Exploration, NullSpace
from duelrank.inference import DifficultQueries, Inference
from duelrank.multileaving import Multileaver, TeamDraft


@register
@dataclass(frozen=True, repr=False)
class NSGD(DuelingBandit):
    """Null space gradient descent: avoid directions that lost before, and break ties on difficult queries.

    Differences from the published code: directions are drawn uniformly from the null space (see `NullSpace`). The published
    NSGD-DSP uses documents down to two positions after the last click but never the last position of the list, even if it was
    clicked, while the published DBGD-DSP and MGD-DSP do use it; `nsgd-dsp` treats all positions alike. In the published code each
    ranker breaks ties between documents in its own order, which is ``ties="separate"`` here.

    References
    ----------
    Wang et al., "Efficient exploration of gradient space for online learning to rank" (SIGIR 2018).

    Examples
    --------
    Directions that lost are remembered, and not tried again for a while:

    >>> from duelrank import simulate
    >>> record = simulate("nsgd", "synthetic(n_queries=40)", "perfect", impressions=200)
    >>> record.learner.state.memory["exploration"]["losers"].shape
    (60, 46)
    >>> float(record.offline[-1].round(2))
    0.77
    """

    # With more rankers than positions in the list, each ranker owns at most one document: a ranker with less credit than the
    # current ranker has credit 0, which is the lowest of all.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"exploration.n_low"})

    exploration: Exploration = NullSpace()
    multileaver: Multileaver = TeamDraft()
    inference: Inference = DifficultQueries()


alias("nsgd", NSGD())
