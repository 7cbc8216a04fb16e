"""Python client of a running duelrank service, blocking or with asyncio; needs the extra ``client`` (httpx and msgspec)."""

try:
    from duelrank.api import (
        FeedbackCounts,
        FeedbackEvent,
        Invalid,
        RankAnswer,
        RankedDocument,
        RankerInfo,
        Start,
        VersionInfo,
    )
    from duelrank.client.client import AsyncClient, Client
    from duelrank.client.errors import ServiceError, ServiceUnreachable
except ImportError as error:  # pragma: no cover
    from duelrank.errors import MissingExtra

    raise MissingExtra(f"duelrank.client needs httpx and msgspec: pip install 'duelrank[client]' ({error})") from None

__all__ = [
    "AsyncClient",
    "Client",
    "FeedbackCounts",
    "FeedbackEvent",
    "Invalid",
    "RankAnswer",
    "RankedDocument",
    "RankerInfo",
    "ServiceError",
    "ServiceUnreachable",
    "Start",
    "VersionInfo",
]
