"""duelrank learns a search ranker from clicks, while it serves."""

from duelrank.algorithms import (
    CMGD,
    CPS,
    DBGD,
    DCMKLUCB,
    DPDBGD,
    MGD,
    NSGD,
    PDGD,
    Algorithm,
    BatchRank,
    CascadeKLUCB,
    CascadeUCB1,
    DuelingBandit,
    PairRank,
    Projected,
    SimMGD,
)
from duelrank.datasets import Dataset, Imported, LongTail, Synthetic
from duelrank.errors import DuelrankError
from duelrank.exploration import (
    CandidatePreselection,
    InDocumentSpace,
    NullSpace,
    OppositePair,
    ReferenceDocuments,
    SpeedThenQuality,
    UniformSphere,
)
from duelrank.grammar import parse
from duelrank.inference import BestWinner, DifficultQueries, MeanWinner
from duelrank.interleave import Comparison
from duelrank.learner import Learner
from duelrank.metrics import ERR, MAP, MRR, P, evaluate, nDCG, online_performance
from duelrank.multileaving import (
    Balanced,
    OptimizedInterleaving,
    OptimizedMultileaving,
    PairwisePreference,
    Probabilistic,
    SampleOnlyScored,
    TeamDraft,
)
from duelrank.projection import (
    AdaptiveLastClick,
    DependentClick,
    DocumentSpace,
    DynamicBayesian,
    LastClick,
    Observed,
    PositionBased,
    WholeList,
)
from duelrank.registry import alias, register, spell
from duelrank.simulation import Record, RunSpec, simulate
from duelrank.snapshot import Snapshot
from duelrank.types import Feedback, Impression, Query, State
from duelrank.updates import Step
from duelrank.users import DBN, DCM, PBM, UBM, Cascade, IntentDrift, Mixture, Opposed, Preset

__version__ = "0.1.0"

__all__ = [
    "CMGD",
    "CPS",
    "DBGD",
    "DBN",
    "DCM",
    "DCMKLUCB",
    "DPDBGD",
    "ERR",
    "MAP",
    "MGD",
    "MRR",
    "NSGD",
    "PBM",
    "PDGD",
    "UBM",
    "AdaptiveLastClick",
    "Algorithm",
    "Balanced",
    "BatchRank",
    "BestWinner",
    "CandidatePreselection",
    "Cascade",
    "CascadeKLUCB",
    "CascadeUCB1",
    "Comparison",
    "Dataset",
    "DependentClick",
    "DifficultQueries",
    "DocumentSpace",
    "DuelingBandit",
    "DuelrankError",
    "DynamicBayesian",
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
    "OppositePair",
    "OptimizedInterleaving",
    "OptimizedMultileaving",
    "P",
    "PairRank",
    "PairwisePreference",
    "PositionBased",
    "Preset",
    "Probabilistic",
    "Projected",
    "Query",
    "Record",
    "ReferenceDocuments",
    "RunSpec",
    "SampleOnlyScored",
    "SimMGD",
    "Snapshot",
    "SpeedThenQuality",
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
