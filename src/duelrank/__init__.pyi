"""The public names, and the one list of them: `duelrank/__init__.py` imports each from here when it is first used."""

from .algorithms import DBGD, MGD, NSGD, PDGD, Algorithm, DuelingBandit, Projected
from .datasets import Dataset, Synthetic
from .errors import DuelrankError
from .evidence import Comparison
from .experiments import compare
from .grammar import parse
from .learner import Learner
from .metrics import evaluate, nDCG, online_performance
from .projection import DocumentSpace
from .registry import alias, register, spell
from .simulation import Record, RunSpec, simulate
from .snapshot import Snapshot
from .types import Feedback, Impression, Query, State

__version__: str

__all__ = [
    "DBGD",
    "MGD",
    "NSGD",
    "PDGD",
    "Algorithm",
    "Comparison",
    "Dataset",
    "DocumentSpace",
    "DuelingBandit",
    "DuelrankError",
    "Feedback",
    "Impression",
    "Learner",
    "Projected",
    "Query",
    "Record",
    "RunSpec",
    "Snapshot",
    "State",
    "Synthetic",
    "alias",
    "compare",
    "evaluate",
    "nDCG",
    "online_performance",
    "parse",
    "register",
    "simulate",
    "spell",
]
