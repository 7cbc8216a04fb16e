"""Null space gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.exploration import Exploration, NullSpace
from duelrank.inference import DifficultQueries, Inference
from duelrank.multileaving import Multileaver, TeamDraft

__all__ = ["NSGD"]


@register
@dataclass(frozen=True, repr=False)
class NSGD(DuelingBandit):
    """Null space gradient descent: avoid directions that lost before, and break ties on difficult queries.

    Differences from the published code: directions are drawn uniformly from the null space (see `NullSpace`). Its projected
    variant, NSGD-DSP, takes documents down to two positions after the last click but never the last position of the list, even
    where it was clicked, while its DBGD-DSP and MGD-DSP do take it; `nsgd-dsp` treats all positions alike. Each ranker breaks ties
    between documents for itself there, which is ``ties="separate"`` here.

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

    # With more rankers than positions in the list, each ranker owns one document at most: a ranker with less credit than the
    # current ranker has none, and so has the lowest credit of all.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"exploration.n_low"})

    exploration: Exploration = NullSpace()
    multileaver: Multileaver = TeamDraft()
    inference: Inference = DifficultQueries()


alias("nsgd", NSGD())
