"""Cascading multileave gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.exploration import Exploration, SpeedThenQuality
from duelrank.registry import alias, register

__all__ = ["CMGD"]


@register
@dataclass(frozen=True, repr=False)
class CMGD(DuelingBandit):
    """Cascading multileave gradient descent: as Sim-MGD while that makes progress, then as MGD from the same weights.

    References
    ----------
    Oosterhuis and de Rijke, "Balancing speed and quality in online learning to rank for information retrieval" (CIKM 2017).
    """

    exploration: Exploration = SpeedThenQuality()


alias("c-mgd", CMGD())
