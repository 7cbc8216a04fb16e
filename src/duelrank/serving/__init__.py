"""Rank and feedback, live: the same event log always gives the same ranker, to the bit."""

from duelrank.api import (
    BackfillCounts,
    Document,
    FeedbackCounts,
    FeedbackEvent,
    Invalid,
    LoggedImpression,
    RankAnswer,
    RankedDocument,
    RankerInfo,
    RankerSpec,
    RankRequest,
    VersionInfo,
)
from duelrank.serving.feedback import Rejected
from duelrank.serving.observer import Observer
from duelrank.serving.service import Service
from duelrank.serving.settings import Settings

__all__ = [
    "BackfillCounts",
    "Document",
    "FeedbackCounts",
    "FeedbackEvent",
    "Invalid",
    "LoggedImpression",
    "Observer",
    "RankAnswer",
    "RankRequest",
    "RankedDocument",
    "RankerInfo",
    "RankerSpec",
    "Rejected",
    "Service",
    "Settings",
    "VersionInfo",
]
