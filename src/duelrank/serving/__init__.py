"""Rank and feedback, live: the same event log always gives the same ranker, to the bit."""

from duelrank.serving.observer import Observer
from duelrank.serving.service import Service
from duelrank.serving.values import (
    Document,
    FeedbackCounts,
    FeedbackEvent,
    Invalid,
    RankAnswer,
    Ranked,
    RankerInfo,
    RankerSpec,
    RankRequest,
    Rejected,
    Settings,
    VersionInfo,
)

__all__ = [
    "Document",
    "FeedbackCounts",
    "FeedbackEvent",
    "Invalid",
    "Observer",
    "RankAnswer",
    "RankRequest",
    "Ranked",
    "RankerInfo",
    "RankerSpec",
    "Rejected",
    "Service",
    "Settings",
    "VersionInfo",
]
