"""What each address of the service does."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any, Literal

import msgspec

from duelrank.api import FeedbackCounts, RankAnswer, RankerInfo, RankerSpec, VersionInfo
from duelrank.errors import InvalidRecipe, NotReady, UnknownName
from duelrank.export import FORMATS
from duelrank.export import export as write
from duelrank.serving.http.endpoint import Call
from duelrank.serving.http.events import decode_events
from duelrank.serving.http.page import page
from duelrank.serving.http.replies import Reply

__all__ = ["ExportQuery", "Health", "Model", "ModelQuery", "Pin", "Rollback"]


class Rollback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version to go back to, which becomes a new one."""

    version: int


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version to serve."""

    version: int


class ModelQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version; the current one where none is given."""

    version: int | None = None


class ExportQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A format, which version, and what some formats can be told.

    For vespa, ``rank_feature=price=attribute(price)`` says what a feature is called there; once for each feature.
    """

    format: Literal["solr", "elasticsearch", "opensearch", "ranklib", "vespa", "onnx", "json"]
    version: int | None = None
    store: str | None = None
    offset_feature: str | None = None
    offset: float | None = None
    allow_negative: bool | None = None
    weights: Literal["inputs", "constants"] | None = None
    rerank_count: int | None = None
    rank_feature: tuple[str, ...] = ()


class Model(msgspec.Struct, frozen=True):
    """A model: score = sum over features of weight × normalised value; higher is better."""

    name: str
    model_version: int
    weights: dict[str, float]
    normalisation: dict[str, Any]


class Health(msgspec.Struct, frozen=True):
    """Whether all is well."""

    status: str


async def create(call: Call) -> Reply:
    """Make a ranker.

    The same again changes nothing and answers 200 in place of 201; another ranker of the same name is a conflict.
    """
    spec: RankerSpec = call.body
    known = any(each.name == spec.name for each in call.service.rankers())
    try:
        info = await call.service.create(spec)
    except UnknownName as error:  # of an algorithm: the address was right, the body was not
        raise InvalidRecipe(str(error)) from None
    return Reply(msgspec.json.encode(info), 200 if known else 201)


async def rankers(call: Call) -> list[RankerInfo]:
    """List all rankers."""
    return call.service.rankers()


async def ranker(call: Call) -> RankerInfo:
    """Show one ranker."""
    return await asyncio.to_thread(call.service.ranker, call.name)


async def rank(call: Call) -> RankAnswer:
    """Order the documents of one query.

    Show them in this order, and send the clicks to the feedback address under the same impression_id. The same impression_id
    again, such as after a lost answer or for the next page, gives the same order again.
    """
    began = perf_counter()
    answer = await call.service.rank(call.name, call.body)
    call.desk.metrics.listed(call.name, perf_counter() - began)
    return answer


async def feedback(call: Call) -> FeedbackCounts:
    """Take what users did with lists.

    One event, an array of them, or one on each line (application/x-ndjson), in our own form or as UBI 1.3.0 has it. One bad
    event never keeps out its neighbours; the answer says which were bad, and why. An event counts once, however often it is
    sent.
    """
    content_type = call.headers.get(b"content-type", b"")
    events = decode_events(call.body, content_type, call.service.settings.max_events)
    return await call.service.feedback(call.name, events)


async def model(call: Call) -> Model:
    """Show the weights by feature, of the current version or of an earlier one."""
    found = await asyncio.to_thread(call.service.model, call.name, call.query.version)
    weights = dict(zip(found.features, found.weights.tolist(), strict=True))
    return Model(found.name, found.version, weights, found.normalisation.as_dict(found.features))


async def versions(call: Call) -> list[VersionInfo]:
    """List the versions that one can go back to, oldest first."""
    return await asyncio.to_thread(call.service.versions, call.name)


async def freeze(call: Call) -> RankerInfo:
    """Stop learning, and serve the current weights without exploring."""
    return await call.service.control(call.name, "freeze")


async def resume(call: Call) -> RankerInfo:
    """Go on learning."""
    return await call.service.control(call.name, "resume")


async def rollback(call: Call) -> RankerInfo:
    """Go back to the weights of an earlier version, as a new version."""
    return await call.service.control(call.name, "rollback", call.body.version)


async def pin(call: Call) -> RankerInfo:
    """Have a shadow serve the best lists of one version, in place of your own order, while it goes on learning."""
    return await call.service.control(call.name, "pin", call.body.version)


async def unpin(call: Call) -> RankerInfo:
    """Have a shadow serve your own order again."""
    return await call.service.control(call.name, "unpin")


async def export(call: Call) -> Reply:
    """Write a model as a search engine takes it, or say why that format cannot hold it."""
    query: ExportQuery = call.query
    found = await asyncio.to_thread(call.service.model, call.name, query.version)
    content = await asyncio.to_thread(write, found, query.format, **_options(query))
    form = FORMATS[query.format]
    file = f'attachment; filename="{found.versioned_name}{form.suffix}"'
    return Reply(content, 200, form.media_type.encode(), ((b"content-disposition", file.encode()),))


def _options(query: ExportQuery) -> dict[str, Any]:
    names = ("store", "offset_feature", "offset", "allow_negative", "weights", "rerank_count")
    options = {name: getattr(query, name) for name in names if getattr(query, name) is not None}
    if query.rank_feature:
        pairs = (each.partition("=") for each in query.rank_feature)
        options["rank_features"] = {name: expression for name, _, expression in pairs}
    return options


async def healthz(call: Call) -> Health:
    """Say that the process is alive."""
    return Health("ok")


async def readyz(call: Call) -> Health:
    """Say that everything was restored; 503 until then, and while the store keeps the service from going on."""
    if not call.service.ready:
        raise NotReady("what was learned is being restored")
    if call.service.failure is not None:
        raise NotReady("the service cannot go on; the server's log says why")
    return Health("ready")


async def metrics(call: Call) -> Reply:
    """Count everything, for Prometheus."""
    return Reply(call.desk.metrics.text(), 200, call.desk.metrics.media_type)


async def openapi(call: Call) -> dict[str, Any]:
    """Describe this service for machines."""
    return call.desk.document


async def docs(call: Call) -> Reply:
    """Describe this service for people."""
    safe = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
    return Reply(page(call.desk.document), 200, b"text/html; charset=utf-8", (safe,))
