"""Dual-point dueling bandit gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.exploration import Exploration, OppositePair
from duelrank.inference import BestWinner, Inference
from duelrank.registry import alias, register

__all__ = ["DPDBGD"]


@register
@dataclass(frozen=True, repr=False)
class DPDBGD(DuelingBandit):
    """Dual-point dueling bandit gradient descent: the current ranker against w + δu and w − δu, all three in one list.

    Users may prefer both to the current ranker. The mean of the two would be zero and the comparison wasted, so the one with
    more credit wins alone. The three are merged by probabilistic multileaving, as for the other algorithms here, instead of by the
    paper's contextual interleaving.

    References
    ----------
    Zhao and King, "Constructing reliable gradient exploration for online learning to rank" (CIKM 2016).
    """

    exploration: Exploration = OppositePair()
    inference: Inference = BestWinner()


alias("dp-dbgd", DPDBGD())
