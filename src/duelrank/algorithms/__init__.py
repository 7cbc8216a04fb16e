"""Recipes: choices of parts that learn. Each file registers its short name; every dueling bandit also gets NAME-dsp here."""

from duelrank.algorithms.base import Algorithm
from duelrank.algorithms.dbgd import DBGD
from duelrank.algorithms.dueling_bandit import DuelingBandit
from duelrank.algorithms.mgd import MGD
from duelrank.algorithms.nsgd import NSGD
from duelrank.algorithms.pairrank import PairRank
from duelrank.algorithms.pdgd import PDGD
from duelrank.algorithms.projected import Projected
from duelrank.registry import alias, aliases

__all__ = ["DBGD", "MGD", "NSGD", "PDGD", "Algorithm", "DuelingBandit", "PairRank", "Projected"]

for _name, _base in aliases(DuelingBandit).items():
    alias(f"{_name}-dsp", Projected(_base))
