"""Sim-MGD: multileave gradient descent on similarities."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.exploration import Exploration, ReferenceDocuments


@register
@dataclass(frozen=True, repr=False)
class SimMGD(DuelingBandit):
    """Multileave gradient descent on similarities: learn weights of the similarities to some reference documents.

    It explores fewer and better directions than those of single features, so it learns faster, but never learns directions outside
    the span of the references. The published experiments compare 19 candidates at once; the default here is that of MGD.

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).

    Examples
    --------
    It explores combinations of 30 documents that it has seen, each with 46 features:

    >>> from duelrank import simulate
    >>> record = simulate("sim-mgd(n_references=30)", "synthetic(n_queries=40)", "perfect", impressions=200)
    >>> record.learner.state.memory["exploration"]["references"].shape
    (46, 30)
    >>> float(record.offline[-1].round(2))
    0.78
    """

    exploration: Exploration = ReferenceDocuments()


alias("sim-mgd", SimMGD())
