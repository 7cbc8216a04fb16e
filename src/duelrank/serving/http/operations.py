"""The whole API in one table: the router, the gate and the documentation are made from it."""

from __future__ import annotations

from duelrank.api import (
    FeedbackCounts,
    FeedbackEvent,
    RankAnswer,
    RankerInfo,
    RankerSpec,
    RankRequest,
    VersionInfo,
)
from duelrank.serving.http import handlers
from duelrank.serving.http.endpoint import Operation
from duelrank.serving.http.events import NDJSON, UbiEvent
from duelrank.serving.http.handlers import ExportQuery, Health, Model, ModelQuery, Pin, Rollback

__all__ = ["OPERATIONS"]

_RANKERS = "/v1/rankers"
_ONE = "/v1/rankers/{name}"
_EVENT = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("FeedbackEvent", "UbiEvent")]}
_EVENTS = {"application/json": {"anyOf": [_EVENT, {"type": "array", "items": _EVENT}]}, NDJSON: {"type": "string"}}
_FILES = ("application/json", "text/plain", "application/octet-stream")

# The router tries them in this order, so the busy ones come first.
OPERATIONS = (
    Operation("POST", f"{_ONE}/rank", handlers.rank, "rank", takes=RankRequest, answers=RankAnswer),
    Operation(
        "POST",
        f"{_ONE}/feedback",
        handlers.feedback,
        "feedback",
        takes=bytes,
        answers=FeedbackCounts,
        bodies=_EVENTS,
        mentions=(FeedbackEvent, UbiEvent),
    ),
    Operation("POST", _RANKERS, handlers.create, "admin", takes=RankerSpec, answers=RankerInfo, status=201),
    Operation("GET", _RANKERS, handlers.rankers, "rank", answers=list[RankerInfo]),
    Operation("GET", _ONE, handlers.ranker, "rank", answers=RankerInfo),
    Operation("GET", f"{_ONE}/model", handlers.model, "admin", query=ModelQuery, answers=Model),
    Operation("GET", f"{_ONE}/model/versions", handlers.versions, "admin", answers=list[VersionInfo]),
    Operation("POST", f"{_ONE}/freeze", handlers.freeze, "admin", answers=RankerInfo),
    Operation("POST", f"{_ONE}/resume", handlers.resume, "admin", answers=RankerInfo),
    Operation("POST", f"{_ONE}/rollback", handlers.rollback, "admin", takes=Rollback, answers=RankerInfo),
    Operation("POST", f"{_ONE}/pin", handlers.pin, "admin", takes=Pin, answers=RankerInfo),
    Operation("POST", f"{_ONE}/unpin", handlers.unpin, "admin", answers=RankerInfo),
    Operation("GET", f"{_ONE}/export", handlers.export, "admin", query=ExportQuery, media_types=_FILES),
    Operation("GET", "/healthz", handlers.healthz, answers=Health, always=True),
    Operation("GET", "/readyz", handlers.readyz, answers=Health, always=True),
    Operation("GET", "/metrics", handlers.metrics, "admin", media_types=("text/plain",), always=True),
    Operation("GET", "/openapi.json", handlers.openapi, always=True),
    Operation("GET", "/docs", handlers.docs, media_types=("text/html",), always=True),
)
