"""Stage 2: proposes candidate rankers."""

from duelrank.exploration.base import Exploration
from duelrank.exploration.candidate_preselection import CandidatePreselection
from duelrank.exploration.in_document_space import InDocumentSpace
from duelrank.exploration.null_space import NullSpace
from duelrank.exploration.opposite_pair import OppositePair
from duelrank.exploration.reference_documents import ReferenceDocuments
from duelrank.exploration.speed_then_quality import SpeedThenQuality
from duelrank.exploration.uniform_sphere import UniformSphere

__all__ = [
    "CandidatePreselection",
    "Exploration",
    "InDocumentSpace",
    "NullSpace",
    "OppositePair",
    "ReferenceDocuments",
    "SpeedThenQuality",
    "UniformSphere",
]
