"""Off-policy evaluation: what rankings would have been worth on the lists of a log, with honest intervals."""

from duelrank.evaluation.candidates import Candidate, ClientOrder, Documents, OwnBest, Scores, as_candidate
from duelrank.evaluation.clicks import Browsing
from duelrank.evaluation.estimators import (
    DirectMethod,
    DoublyRobust,
    Estimator,
    Examined,
    ItemPosition,
    RewardInteraction,
)
from duelrank.evaluation.evaluation import CandidateValue, Evaluation, evaluate, evaluate_lists, value_of
from duelrank.evaluation.lists import Lists, LoggedList

__all__ = [
    "Browsing",
    "Candidate",
    "CandidateValue",
    "ClientOrder",
    "DirectMethod",
    "Documents",
    "DoublyRobust",
    "Estimator",
    "Evaluation",
    "Examined",
    "ItemPosition",
    "Lists",
    "LoggedList",
    "OwnBest",
    "RewardInteraction",
    "Scores",
    "as_candidate",
    "evaluate",
    "evaluate_lists",
    "value_of",
]
