"""The public names, and the one list of them: `duelrank/__init__.py` imports each from here when it is first used."""

from .algorithms import DBGD, MGD, NSGD, PDGD, Algorithm, DuelingBandit, Projected
from .core.errors import DuelrankError
from .core.grammar import parse
from .core.registry import alias, register, spell
from .core.snapshot import Snapshot
from .core.types import Feedback, Impression, Query, State
from .datasets import Dataset, Synthetic
from .evaluation import evaluate
from .evidence import Comparison
from .experiments import compare
from .learner import Learner
from .metrics import nDCG, offline_performance, online_performance
from .placing import Placement
from .projection import DocumentSpace
from .representation import Interactions
from .simulation import Record, RunSpec, simulate

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
    "Interactions",
    "Learner",
    "Placement",
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
    "offline_performance",
    "online_performance",
    "parse",
    "register",
    "simulate",
    "spell",
]
