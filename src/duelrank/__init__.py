"""duelrank learns a search ranker from clicks, while it serves."""

from duelrank.algorithms import DBGD, MGD, NSGD, Algorithm, DuelingBandit, Projected
from duelrank.datasets import Dataset, Imported, LongTail, Synthetic
from duelrank.errors import DuelrankError
from duelrank.exploration import InDocumentSpace, NullSpace, UniformSphere
from duelrank.grammar import parse
from duelrank.inference import BestWinner, DifficultQueries, MeanWinner
from duelrank.learner import Learner
from duelrank.metrics import ERR, MAP, MRR, P, evaluate, nDCG, online_performance
from duelrank.multileaving import Probabilistic, TeamDraft
from duelrank.projection import DocumentSpace, LastClick, Observed, WholeList
from duelrank.registry import alias, register, spell
from duelrank.simulation import Record, RunSpec, simulate
from duelrank.snapshot import Snapshot
from duelrank.types import Feedback, Impression, Query, State
from duelrank.updates import Step
from duelrank.users import DBN, DCM, PBM, UBM, Cascade, IntentDrift, Mixture, Opposed, Preset

__version__ = "0.1.0"

__all__ = [
    "DBGD",
    "DBN",
    "DCM",
    "ERR",
    "MAP",
    "MGD",
    "MRR",
    "NSGD",
    "PBM",
    "UBM",
    "Algorithm",
    "BestWinner",
    "Cascade",
    "Dataset",
    "DifficultQueries",
    "DocumentSpace",
    "DuelingBandit",
    "DuelrankError",
    "Feedback",
    "Imported",
    "Impression",
    "InDocumentSpace",
    "IntentDrift",
    "LastClick",
    "Learner",
    "LongTail",
    "MeanWinner",
    "Mixture",
    "NullSpace",
    "Observed",
    "Opposed",
    "P",
    "Preset",
    "Probabilistic",
    "Projected",
    "Query",
    "Record",
    "RunSpec",
    "Snapshot",
    "State",
    "Step",
    "Synthetic",
    "TeamDraft",
    "UniformSphere",
    "WholeList",
    "alias",
    "evaluate",
    "nDCG",
    "online_performance",
    "parse",
    "register",
    "simulate",
    "spell",
]
