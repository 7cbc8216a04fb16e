"""Python client of a running duelrank service, blocking or with asyncio; needs the extra ``client`` (httpx and msgspec)."""

from importlib.util import find_spec

try:
    from duelrank.client.client import AsyncClient, Client
    from duelrank.client.protocol import ServiceError, ServiceUnreachable
    from duelrank.service.http.schema import (
        BackfillCounts,
        Document,
        ExperimentBand,
        ExperimentHistory,
        ExperimentInfo,
        ExperimentPair,
        FeatureCurve,
        FeedbackCounts,
        FeedbackEvent,
        GuardAlarm,
        GuardInfo,
        GuardRung,
        GuardSpec,
        History,
        HistoryGuard,
        HistoryMark,
        Invalid,
        LastStep,
        LoggedImpression,
        ModelCurves,
        RankAnswer,
        RankedDocument,
        RankerInfo,
        ShowAnswer,
        Start,
        StepDocument,
        VersionInfo,
    )

    if find_spec("httpx") is None:  # imported by the first client
        raise ModuleNotFoundError("No module named 'httpx'")
except ImportError as error:  # pragma: no cover
    from duelrank.core.errors import MissingExtra

    raise MissingExtra(f"duelrank.client needs httpx and msgspec: pip install 'duelrank[client]' ({error})") from None

__all__ = [
    "AsyncClient",
    "BackfillCounts",
    "Client",
    "Document",
    "ExperimentBand",
    "ExperimentHistory",
    "ExperimentInfo",
    "ExperimentPair",
    "FeatureCurve",
    "FeedbackCounts",
    "FeedbackEvent",
    "GuardAlarm",
    "GuardInfo",
    "GuardRung",
    "GuardSpec",
    "History",
    "HistoryGuard",
    "HistoryMark",
    "Invalid",
    "LastStep",
    "LoggedImpression",
    "ModelCurves",
    "RankAnswer",
    "RankedDocument",
    "RankerInfo",
    "ServiceError",
    "ServiceUnreachable",
    "ShowAnswer",
    "Start",
    "StepDocument",
    "VersionInfo",
]
