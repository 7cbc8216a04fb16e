"""Algorithms, one per module, each registered by a short name; every dueling bandit also has a projected variant, NAME-dsp."""

from __future__ import annotations

from functools import cache

from duelrank.algorithms.base import Algorithm
from duelrank.algorithms.batch_rank import BatchRank
from duelrank.algorithms.c_mgd import CMGD
from duelrank.algorithms.cascade_kl_ucb import CascadeKLUCB
from duelrank.algorithms.cascade_ucb1 import CascadeUCB1
from duelrank.algorithms.click_bandit import ClickBandit
from duelrank.algorithms.cps import CPS
from duelrank.algorithms.dbgd import DBGD
from duelrank.algorithms.dcm_kl_ucb import DCMKLUCB
from duelrank.algorithms.dp_dbgd import DPDBGD
from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.algorithms.log_pairs import LogPairs
from duelrank.algorithms.mgd import MGD
from duelrank.algorithms.nsgd import NSGD
from duelrank.algorithms.pairrank import PairRank
from duelrank.algorithms.pdgd import PDGD
from duelrank.algorithms.projected import Projected
from duelrank.algorithms.remembered import Remember, Remembered
from duelrank.algorithms.represented import Represented
from duelrank.algorithms.scored import Scored, ScoredPDGD
from duelrank.algorithms.sim_mgd import SimMGD
from duelrank.algorithms.thompson_pairs import ThompsonPairs
from duelrank.algorithms.wmgd import WMGD
from duelrank.core.registry import Part, registered, source

__all__ = [
    "CMGD",
    "CPS",
    "DBGD",
    "DCMKLUCB",
    "DPDBGD",
    "MGD",
    "NSGD",
    "PDGD",
    "WMGD",
    "Algorithm",
    "BatchRank",
    "CascadeKLUCB",
    "CascadeUCB1",
    "ClickBandit",
    "DuelingBandit",
    "LogPairs",
    "PairRank",
    "Projected",
    "Remember",
    "Remembered",
    "Represented",
    "Scored",
    "ScoredPDGD",
    "SimMGD",
    "ThompsonPairs",
]


_projected = cache(Projected)


@source
def _with_projection() -> dict[str, Part]:
    """Return NAME-dsp for every dueling bandit that has a name; a module may register NAME-dsp with other parameters."""
    return {f"{name}-dsp": _projected(base) for name, base in registered(DuelingBandit).items()}
