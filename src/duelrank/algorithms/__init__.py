"""Recipes: choices of parts that learn. Each file registers its short name; every dueling bandit also gets NAME-dsp here."""

from duelrank.algorithms.base import Algorithm
from duelrank.algorithms.c_mgd import CMGD
from duelrank.algorithms.cps import CPS
from duelrank.algorithms.dbgd import DBGD
from duelrank.algorithms.dp_dbgd import DPDBGD
from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.algorithms.mgd import MGD
from duelrank.algorithms.nsgd import NSGD
from duelrank.algorithms.projected import Projected
from duelrank.algorithms.sim_mgd import SimMGD
from duelrank.registry import alias, aliases

__all__ = ["CMGD", "CPS", "DBGD", "DPDBGD", "MGD", "NSGD", "Algorithm", "DuelingBandit", "Projected", "SimMGD"]

for _name, _base in aliases(DuelingBandit).items():
    alias(f"{_name}-dsp", Projected(_base))
