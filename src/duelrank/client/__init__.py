"""Ask a running duelrank service from Python, waiting or with asyncio; needs the extra ``client`` (httpx)."""

from duelrank.client.client import AsyncClient, Client
from duelrank.client.errors import ServiceError, ServiceUnreachable
from duelrank.client.values import (
    FeedbackCounts,
    FeedbackEvent,
    Invalid,
    RankAnswer,
    Ranked,
    RankerInfo,
    VersionInfo,
)

__all__ = [
    "AsyncClient",
    "Client",
    "FeedbackCounts",
    "FeedbackEvent",
    "Invalid",
    "RankAnswer",
    "Ranked",
    "RankerInfo",
    "ServiceError",
    "ServiceUnreachable",
    "VersionInfo",
]
