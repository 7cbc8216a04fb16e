"""Evidence from clicks on which ranker users prefer: sequential tests, the guard of a learning ranker, comparisons of rankers."""

from duelrank.evidence.guard import Alarm, Guard, GuardCounts, GuardSpec, Voters
from duelrank.evidence.interleaving import Comparison, Result, Shown
from duelrank.evidence.sequential import ConfidenceSequence, Detector, EValue, InOrder, anytime_test

__all__ = [
    "Alarm",
    "Comparison",
    "ConfidenceSequence",
    "Detector",
    "EValue",
    "Guard",
    "GuardCounts",
    "GuardSpec",
    "InOrder",
    "Result",
    "Shown",
    "Voters",
    "anytime_test",
]
