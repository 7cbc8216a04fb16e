"""Multileave gradient descent on similarities."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.core.registry import alias, register
from duelrank.exploration import Exploration, ReferenceDocuments

__all__ = ["SimMGD"]


@register
@dataclass(frozen=True, repr=False)
class SimMGD(DuelingBandit):
    """Multileave gradient descent on similarities: learn how much to resemble each of some reference documents.

    Fewer and better directions than those of single features: it learns faster, and what the references do not span it never
    learns. The published experiments compare 19 candidates at once; the default here is that of MGD.

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).

    Examples
    --------
    What it explores are mixtures of 30 documents that it has met, each with 46 features:

    >>> from duelrank import simulate
    >>> record = simulate("sim-mgd(n_references=30)", "synthetic(n_queries=40)", "perfect", impressions=200)
    >>> record.learner.state.memory["exploration"]["references"].shape
    (46, 30)
    >>> float(record.offline[-1].round(2))
    0.78
    """

    exploration: Exploration = ReferenceDocuments()


alias("sim-mgd", SimMGD())
