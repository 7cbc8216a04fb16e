"""The whole API in one table of operations, and what each of them does; router, gate and documentation are made from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec
import numpy as np

from duelrank.api import (
    BackfillCounts,
    Change,
    Comparison,
    FeedbackCounts,
    FeedbackEvent,
    GuardInfo,
    GuardSpec,
    Health,
    History,
    ImpressionInfo,
    LastStep,
    Live,
    LoggedImpression,
    Model,
    ModelCurves,
    RankAnswer,
    RankerInfo,
    RankerSpec,
    RankRequest,
    VersionInfo,
    VersionLabel,
    VersionNumber,
)
from duelrank.core.errors import (
    Conflict,
    DataFormatError,
    InvalidRecipe,
    InvalidValue,
    LimitExceeded,
    MissingExtra,
    NotReady,
    ShapeMismatch,
    UnknownName,
)
from duelrank.export import FORMATS, LinearModel
from duelrank.export import export as write
from duelrank.export.base import export_query, options_of
from duelrank.representation.base import by_feature
from duelrank.representation.fixed import write_representation
from duelrank.serving.http.auth import Caller
from duelrank.serving.http.dashboard import FILES, POLICY, read_file, render
from duelrank.serving.http.decoding import decode_logged, decode_rank, decoded
from duelrank.serving.http.errors import NoSuchPage, NoWebhook, wrong_shape
from duelrank.serving.http.feedback import NDJSON, UbiEvent, decode_events
from duelrank.serving.http.live import messages
from duelrank.serving.http.openapi import ASSETS, CONTENT_SECURITY_POLICY
from duelrank.serving.ranker.history import Step
from duelrank.serving.service import Service
from duelrank.serving.webhooks import without_secrets

if TYPE_CHECKING:
    from duelrank.serving.http.app import Desk

__all__ = ["MSGPACK", "OPERATIONS", "Call", "DeleteQuery", "ExportQuery", "ModelQuery", "Operation", "Reply", "Stream"]

JSON = b"application/json"
MSGPACK = "application/msgpack"

Guarded = TypeVar("Guarded", RankerInfo, GuardInfo)


class Reply(NamedTuple):
    """A whole answer."""

    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(NamedTuple):
    """An answer that goes on until its chunks or its reader end."""

    chunks: AsyncIterator[bytes]
    media_type: bytes


class Call(msgspec.Struct):
    """One request as a handler sees it: who asks, the parts of the path, the decoded body, the decoded query."""

    desk: Desk
    service: Service
    caller: Caller
    path: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    query: Any = None
    body: Any = None

    @property
    def name(self) -> str:
        """Of the ranker that the path names."""
        return self.path["name"]

    def check_webhook(self, guard: GuardSpec | msgspec.UnsetType | None, present: GuardSpec | None = None) -> None:
        """Raise where somebody without an admin key for all rankers names an address that the service would send messages to.

        Who may change the ranker may send the address again that its present guard has.
        """
        if not isinstance(guard, GuardSpec) or guard.webhook is None:
            return
        if self.caller.rankers and (present is None or guard.webhook != present.webhook):
            raise NoWebhook(
                "this API key is for some rankers only, so guard.webhook is for the operator to give: with "
                "'duelrank serve --webhook URL', or with a key for all rankers ('duelrank keys create --scope admin')"
            )
        if not self.caller.admin:
            raise NoWebhook(
                "without API keys anybody on this machine may ask, so guard.webhook is for the operator to give: with "
                "'duelrank serve --webhook URL', or with a key ('duelrank keys create --scope admin')"
            )

    def shown(self, info: Guarded) -> Guarded:
        """Return what the caller may see: the whole address of a webhook, which is often a password, only with an admin key."""
        guard = info.guard
        if guard is None or guard.webhook is None or self.caller.admin:
            return info
        hidden = msgspec.structs.replace(guard, webhook=without_secrets(guard.webhook))
        return msgspec.structs.replace(info, guard=hidden)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path: everything that the router, the documentation and the gate have to know of it.

    Parameters
    ----------
    method, path
        Where it is.
    handle
        Answers a call with a value that is encoded as JSON, with a `Reply` or with a `Stream`; its docstring is its documentation.
    needs
        The scope that a key needs; None for everybody.
    takes
        The type of the body; None where there is none.
    decode
        Turns the body's bytes into what the handler wants; from JSON into ``takes`` where it is not given. Large bodies are
        decoded in a thread.
    query
        The struct that the query string is decoded into.
    answers
        The type of the answer; None where it has no schema.
    statuses
        With which it may succeed.
    raises
        The errors of this operation itself; what the way of every request may raise is known.
    always
        Whether it answers before everything was restored too.
    all_rankers
        Whether it shows all rankers, so that it is not for a key that is limited to some.
    bodies
        Types to document the body with, by media type, where that is not just ``takes`` as JSON.
    examples
        Bodies that work, by name.
    named
        The ranker of the examples.
    media_types
        Of the answer.
    hidden
        Whether it is left out of the documentation.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[Any]]
    needs: str | None = None
    takes: Any = None
    decode: Callable[[bytes, Call], Any] | None = None
    query: Any = None
    answers: Any = None
    statuses: tuple[int, ...] = (200,)
    raises: tuple[type[Exception], ...] = ()
    always: bool = False
    all_rankers: bool = False
    bodies: Mapping[str, Any] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    named: str = "shop"
    media_types: tuple[str, ...] = ("application/json",)
    hidden: bool = False

    def __post_init__(self) -> None:
        if self.takes is not None and self.decode is None:
            object.__setattr__(self, "decode", _json_decoder(self.takes))

    def decoded_query(self, text: bytes) -> Any:
        """Decode a query string into the struct of this operation; what may be given more than once is a tuple there."""
        try:
            pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=10_000)
        except ValueError as error:
            raise msgspec.ValidationError(f"the query string cannot be read: {error}") from None
        several = {each.name for each in msgspec.structs.fields(self.query) if get_origin(each.type) is tuple}
        values: dict[str, Any] = {}
        for name, value in pairs:
            values[name] = (*values.get(name, ()), value) if name in several else value
        try:
            return msgspec.convert(values, self.query, strict=False)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(wrong_shape(error, self.query)) from None


# Decoding


def _json_decoder(wanted: Any) -> Callable[[bytes, Call], Any]:
    decode = msgspec.json.Decoder(wanted).decode
    return lambda body, call: decoded(decode, body, wanted)


_encode_msgpack = msgspec.msgpack.Encoder().encode


def _decode_rank(body: bytes, call: Call) -> RankRequest:
    return decode_rank(body, call.headers.get(b"content-type", b""), len(body) > call.desk.settings.heavy)


def _decode_feedback(body: bytes, call: Call) -> Any:
    return decode_events(body, call.headers.get(b"content-type", b""), call.service.settings.max_events)


def _decode_logged(body: bytes, call: Call) -> Any:
    return decode_logged(body, call.headers.get(b"content-type", b""), call.service.settings.max_events)


# Query strings


class ModelQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version; the current one where none is given."""

    version: int | None = None


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which steps; the newest 2,000 between start and end, in seconds since 1970."""

    step: Step = "minute"
    start: float | None = None
    end: float | None = None


class DeleteQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the ranker once more."""

    confirm: str


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which steps the history in the messages is."""

    step: Step = "minute"


class CompareQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which impression, and by which versions: the first and the current one where none is given."""

    impression: str
    one: int | None = None
    other: int | None = None


#: Made from the registered formats: those of an extension too, which is loaded before the service is imported.
ExportQuery = export_query()


# Rank and feedback


async def rank(call: Call) -> RankAnswer | Reply:
    """Order the documents of one query.

    Show them in this order, and send the clicks to the feedback address under the same impression_id. The same impression_id
    again, such as after a lost answer or for the next page, gives the same order again. Large requests are smaller and
    quicker with all documents as one table, in JSON or as application/msgpack; with Accept: application/msgpack, the answer
    is MessagePack too.
    """
    began = perf_counter()
    answer = await call.service.rank(call.name, call.body)
    call.desk.metrics.listed(call.name, perf_counter() - began)
    if b"msgpack" in call.headers.get(b"accept", b""):
        return Reply(_encode_msgpack(answer), 200, MSGPACK.encode())
    return answer


async def feedback(call: Call) -> FeedbackCounts:
    """Take what users did with impressions.

    One event, an array of them, or one on each line (application/x-ndjson), in our own form or as UBI 1.3.0 has it. One bad
    event never keeps out its neighbours; the answer says which were bad, and why. An event counts once, however often it is
    sent.
    """
    return await call.service.feedback(call.name, call.body)


# Rankers


async def create(call: Call) -> Reply:
    """Make a ranker.

    The same again changes nothing and answers 200 in place of 201; another ranker of the same name is a conflict.
    """
    spec: RankerSpec = call.body
    call.caller.check(spec.name)
    call.check_webhook(spec.guard)
    if spec.start is not None and spec.start.ranker is not None:
        call.caller.check(spec.start.ranker)
    try:
        info, new = await call.service.create(spec)
    except UnknownName as error:  # of an algorithm: the address was right, the body was not
        raise InvalidRecipe(str(error)) from None
    return Reply(msgspec.json.encode(call.shown(info)), 201 if new else 200)


async def rankers(call: Call) -> list[RankerInfo]:
    """List all rankers that the key is for."""
    return [call.shown(info) for info in call.service.rankers() if call.caller.may_use(info.name)]


async def ranker(call: Call) -> RankerInfo:
    """Show one ranker."""
    return call.shown(await asyncio.to_thread(call.service.ranker, call.name))


async def guard(call: Call) -> GuardInfo:
    """Show how a guarded ranker does against your own order.

    Its wins and losses, the band of its win rate and the evidence of gain, which are valid whenever you look; how near it is to an
    alarm; where on its ladder it stands; and the last alarm, with its reason.
    """
    return call.shown(await asyncio.to_thread(call.service.guard, call.name))


async def live(call: Call) -> Stream:
    """Tell how a ranker does, about once a second, as server-sent events.

    The data of each is a JSON object: the ranker and its guard as they are now, how far the learner is behind, events per second,
    and the newest steps of its history. The stream ends with the service, and when the key is revoked: then ask again.
    """
    call.shown(
        await asyncio.to_thread(call.service.ranker, call.name)
    )  # what is wrong is said before the stream begins
    return Stream(messages(call, call.query.step), b"text/event-stream")


async def impressions(call: Call) -> list[ImpressionInfo]:
    """List the newest impressions whose features are still in the store, newest first.

    Features are dropped some time after an impression was learned from; `duelrank serve --keep-features` says when.
    """
    return await asyncio.to_thread(call.service.impressions, call.name)


async def backfill(call: Call) -> BackfillCounts:
    """Teach a ranker with lists that another system ranked, before it gets traffic.

    One list, an array of them, or one on each line (application/x-ndjson), each with its documents in the order in which they were
    shown, and what the user did. A list teaches once, however often it is sent; one that is bad keeps out no other.
    """
    return await call.service.backfill(call.name, call.body)


async def compare(call: Call) -> Comparison:
    """Rank a stored impression by two versions, by default the first and the current one, to see what has changed."""
    query: CompareQuery = call.query
    return await asyncio.to_thread(call.service.compare, call.name, query.impression, query.one, query.other)


async def change(call: Call) -> RankerInfo:
    """Change a ranker, and keep what it has learned.

    What is not given stays. New features start by adding nothing; features that are retired may still be sent, and are ignored.
    A guard is replaced as a whole; null is no guard any more.
    """
    present = (await asyncio.to_thread(call.service.ranker, call.name)).guard if call.caller.rankers else None
    call.check_webhook(call.body.guard, present)
    return call.shown(await call.service.change(call.name, call.body))


async def delete(call: Call) -> Reply:
    """Delete a ranker with all its data, for good.

    To confirm that, give its name once more: ?confirm=NAME.
    """
    if call.query.confirm != call.name:
        raise InvalidValue(
            f"to delete {call.name!r} for good, give its name as confirm; got {call.query.confirm[:200]!r}"
        )
    await call.service.delete(call.name)
    return Reply(b"", 204)


async def freeze(call: Call) -> RankerInfo:
    """Stop learning, and serve the current weights without exploring."""
    return call.shown(await call.service.control(call.name, "freeze"))


async def resume(call: Call) -> RankerInfo:
    """Go on learning, after a freeze or an alarm of the guard, which then begins to watch anew."""
    return call.shown(await call.service.control(call.name, "resume"))


async def rollback(call: Call) -> RankerInfo:
    """Go back to the weights of an earlier version, as a new version."""
    return call.shown(await call.service.control(call.name, "rollback", call.body.version))


async def label(call: Call) -> VersionInfo:
    """Keep a version under a label, until the label is removed with "".

    Versions without a label are thinned as they grow older.
    """
    return await call.service.label(call.name, call.body.version, call.body.label)


async def pin(call: Call) -> RankerInfo:
    """Have a shadow serve the best rankings of one version, in place of your own order, while it goes on learning."""
    return call.shown(await call.service.control(call.name, "pin", call.body.version))


async def unpin(call: Call) -> RankerInfo:
    """Have a shadow serve your own order again."""
    return call.shown(await call.service.control(call.name, "unpin"))


# Models


async def model(call: Call) -> Model:
    """Show the weights by feature, of the current version or of an earlier one.

    The weights of a feature are a list where its representation has several columns; its curve may tell more.
    """
    return _shown(await asyncio.to_thread(call.service.model, call.name, call.query.version))


def _shown(found: LinearModel) -> Model:
    rows = by_feature(found.weights, len(found.features))
    weights = dict(zip(found.features, (rows[:, 0] if rows.shape[1] == 1 else rows).tolist(), strict=True))
    knots = None
    if found.knots is not None and not np.isnan(found.knots[0, 0]):
        knots = dict(zip(found.features, found.knots.tolist(), strict=True))
    return Model(found.name, found.version, weights, write_representation(found.representation, found.features), knots)


async def curves(call: Call) -> ModelCurves:
    """Show what each feature adds to the score, as a curve, the feature that moves rankings most first.

    Of the current version or of an earlier one.
    """
    return await asyncio.to_thread(call.service.curves, call.name, call.query.version)


async def last_step(call: Call) -> LastStep:
    """Show what was learned from the last impression.

    Which of its documents were clicked and taken as examined, where the clicks point, what of that was followed after the
    projection, and the weights before and after. It is computed when you ask, by the process that learns; others answer 503.
    """
    return await asyncio.to_thread(call.service.last_step, call.name)


async def history(call: Call) -> History:
    """Show what a ranker did over time, in steps of a minute, an hour or a day.

    Lists, clicks, reward, weights and the guard as one list of numbers each, at most 2,000 of them, the newest; and what happened
    to the ranker, as marks. Steps in which nothing happened are left out. It survives restarts.
    """
    query: HistoryQuery = call.query
    return await asyncio.to_thread(call.service.history, call.name, query.step, query.start, query.end)


async def versions(call: Call) -> list[VersionInfo]:
    """List the versions that one can go back to, oldest first."""
    return await asyncio.to_thread(call.service.versions, call.name)


async def export(call: Call) -> Reply:
    """Write a model as a search engine takes it, or say why that format cannot hold it."""
    query = call.query
    found = await asyncio.to_thread(call.service.model, call.name, query.version)
    content = await asyncio.to_thread(write, found, query.format, **options_of(query))
    form = FORMATS[query.format]
    file = f'attachment; filename="{found.versioned_name}{form.suffix}"'
    return Reply(content, 200, form.media_type.encode(), ((b"content-disposition", file.encode()),))


# The service itself


async def healthz(call: Call) -> Health:
    """Say that the process is alive."""
    return Health("ok")


async def readyz(call: Call) -> Health:
    """Say that everything was restored; 503 until then, and while the store keeps the service from going on."""
    if not call.service.ready:
        raise NotReady("kernels are being compiled, or what was learned is being restored")
    if call.service.failure is not None:
        raise NotReady("the service cannot go on; the server's log says why")
    return Health("ready")


async def metrics(call: Call) -> Reply:
    """Count everything, for Prometheus."""
    return Reply(call.desk.metrics.text(), 200, call.desk.metrics.media_type)


async def openapi(call: Call) -> Reply:
    """Describe this service for machines."""
    return Reply(call.desk.document)


async def docs(call: Call) -> Reply:
    """Describe this service for people, who can try every operation there."""
    return Reply(call.desk.page, 200, b"text/html; charset=utf-8", CONTENT_SECURITY_POLICY)


async def asset(call: Call) -> Reply:
    """Send a file that the page for people loads."""
    found = ASSETS.get(call.path["file"])
    if found is None:
        raise NoSuchPage(f"there is no file {call.path['file'][:200]!r} here")
    media_type, read = found
    return Reply(read(), 200, media_type, ((b"cache-control", b"max-age=86400"),))


async def dashboard(call: Call) -> Reply:
    """Show how a ranker does, for people who watch it, live."""
    keys = call.desk.gate.keys.in_force
    page = render(call.path.get("name", ""), keys, call.service.read_only)
    return Reply(page, 200, b"text/html; charset=utf-8", POLICY)


async def dashboard_file(call: Call) -> Reply:
    """Send a file that the dashboard loads."""
    media_type = FILES.get(call.path["file"])
    if media_type is None:
        raise NoSuchPage(f"there is no file {call.path['file'][:200]!r} here")
    return Reply(read_file(call.path["file"]), 200, media_type, ((b"cache-control", b"max-age=86400"),))


_RANKERS = "/v1/rankers"
_ONE = "/v1/rankers/{name}"
_FILES = ("application/json", "text/plain", "application/octet-stream")
_CONTROL = (InvalidValue, UnknownName, Conflict)
_READ = (UnknownName, InvalidValue)

_SPEC = {
    "name": "shop",
    "algorithm": "mgd-dsp",
    "features": ["bm25", "rating", "price"],
    "representation": "query-scaled",
}
_SHADOW = {"name": "shadow", "algorithm": "pdgd", "features": ["bm25", "rating", "price"], "mode": "shadow"}
_GUARDED = {
    "name": "guarded",
    "algorithm": "wmgd-dsp",
    "features": ["bm25", "rating", "price"],
    "guard": {"share": 0.1, "on_alarm": "baseline", "promote": [0.1, 0.5, 1.0]},
}
_RANK = {
    "an impression": {
        "impression_id": "i1",
        "documents": [
            {"id": "d1", "features": [12.3, 4.1, 20.0]},
            {"id": "d2", "features": {"bm25": 9.9, "rating": 4.8, "price": 35.0}},
        ],
    },
    # 1.0, 2.0, 3.0 and 4.0, 5.0, 6.0 as float32
    "a table": {
        "impression_id": "i2",
        "documents": {"ids": ["d1", "d2"], "features": "AACAPwAAAEAAAEBAAACAQAAAoEAAAMBA"},
    },
}
_CLICK = {"event_id": "e1", "impression_id": "i1", "clicks": ["d2"], "close": True}
_UBI = {
    "action_name": "click",
    "query_id": "i2",
    "timestamp": "2026-01-02T03:04:05Z",
    "event_attributes": {"object": {"object_id": "d1"}, "position": {"ordinal": 1}},
}
_EVENT = FeedbackEvent | UbiEvent
_LOGGED = {
    "impression_id": "2025-11-03-7",
    "documents": [
        {"id": "d7", "features": {"bm25": 14.2, "rating": 4.0, "price": 15.0}},
        {"id": "d4", "features": {"bm25": 11.0, "rating": 4.9, "price": 22.0}},
    ],
    "clicks": ["d4"],
}

# The router tries them in this order, so the busy ones come first.
OPERATIONS = (
    Operation(
        method="POST",
        path=f"{_ONE}/rank",
        handle=rank,
        needs="rank",
        takes=RankRequest,
        decode=_decode_rank,
        bodies={"application/json": RankRequest, MSGPACK: RankRequest},
        examples=_RANK,
        answers=RankAnswer,
        media_types=("application/json", MSGPACK),
        raises=(UnknownName, InvalidValue, ShapeMismatch, LimitExceeded, Conflict),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/feedback",
        handle=feedback,
        needs="feedback",
        takes=FeedbackEvent,
        decode=_decode_feedback,
        bodies={"application/json": _EVENT | list[_EVENT], NDJSON: str},
        examples={"a click": _CLICK, "UBI 1.3.0": _UBI, "several events": [{"impression_id": "i2", "close": True}]},
        answers=FeedbackCounts,
        raises=(UnknownName, InvalidValue, LimitExceeded),
    ),
    Operation(
        method="POST",
        path=_RANKERS,
        handle=create,
        needs="admin",
        takes=RankerSpec,
        examples={"a ranker that learns": _SPEC, "a shadow": _SHADOW, "a guarded ranker": _GUARDED},
        answers=RankerInfo,
        statuses=(200, 201),
        raises=(
            NoWebhook,
            Conflict,
            InvalidValue,
            InvalidRecipe,
            ShapeMismatch,
            DataFormatError,
            LimitExceeded,
            UnknownName,
        ),
    ),
    Operation(method="GET", path=_RANKERS, handle=rankers, needs="rank", answers=list[RankerInfo]),
    Operation(method="GET", path=_ONE, handle=ranker, needs="rank", answers=RankerInfo, raises=(UnknownName,)),
    Operation(
        method="PATCH",
        path=_ONE,
        handle=change,
        needs="admin",
        takes=Change,
        examples={
            "explore less": {"exploration": 0.5},
            "longer rankings, closed earlier": {"length": 20, "close_after": 600},
            "a guard that only tells": {"guard": {"on_alarm": "tell", "promote": [1.0]}},
            "no guard": {"guard": None},
        },
        answers=RankerInfo,
        raises=(*_CONTROL, LimitExceeded, NoWebhook),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/guard",
        handle=guard,
        needs="rank",
        named="guarded",
        answers=GuardInfo,
        raises=_READ,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/live",
        handle=live,
        needs="admin",
        query=LiveQuery,
        answers=Live,
        media_types=("text/event-stream",),
        raises=_READ,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/impressions",
        handle=impressions,
        needs="admin",
        answers=list[ImpressionInfo],
        raises=(UnknownName,),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/impressions",
        handle=backfill,
        needs="admin",
        takes=LoggedImpression,
        decode=_decode_logged,
        bodies={"application/json": LoggedImpression | list[LoggedImpression], NDJSON: str},
        examples={"a list of a log": _LOGGED},
        named="guarded",
        answers=BackfillCounts,
        raises=(UnknownName, InvalidValue, InvalidRecipe, LimitExceeded, Conflict),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/compare",
        handle=compare,
        needs="admin",
        query=CompareQuery,
        answers=Comparison,
        raises=_READ,
    ),
    Operation(
        method="DELETE",
        path=_ONE,
        handle=delete,
        needs="admin",
        query=DeleteQuery,
        statuses=(204,),
        media_types=(),
        raises=_CONTROL,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/model",
        handle=model,
        needs="admin",
        query=ModelQuery,
        answers=Model,
        raises=_READ,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/curves",
        handle=curves,
        needs="admin",
        query=ModelQuery,
        answers=ModelCurves,
        raises=_READ,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/last-step",
        handle=last_step,
        needs="admin",
        answers=LastStep,
        raises=(UnknownName,),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/history",
        handle=history,
        needs="admin",
        query=HistoryQuery,
        answers=History,
        raises=_READ,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/model/versions",
        handle=versions,
        needs="admin",
        answers=list[VersionInfo],
        raises=(UnknownName,),
    ),
    Operation(method="POST", path=f"{_ONE}/freeze", handle=freeze, needs="admin", answers=RankerInfo, raises=_CONTROL),
    Operation(method="POST", path=f"{_ONE}/resume", handle=resume, needs="admin", answers=RankerInfo, raises=_CONTROL),
    Operation(
        method="POST",
        path=f"{_ONE}/label",
        handle=label,
        needs="admin",
        takes=VersionLabel,
        examples={"keep the first version": {"version": 1, "label": "before the sale"}},
        answers=VersionInfo,
        raises=(*_CONTROL, LimitExceeded),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/rollback",
        handle=rollback,
        needs="admin",
        takes=VersionNumber,
        examples={"the first one": {"version": 1}},
        answers=RankerInfo,
        raises=_CONTROL,
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/pin",
        handle=pin,
        needs="admin",
        takes=VersionNumber,
        examples={"the first one": {"version": 1}},
        named="shadow",
        answers=RankerInfo,
        raises=_CONTROL,
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/unpin",
        handle=unpin,
        needs="admin",
        named="shadow",
        answers=RankerInfo,
        raises=_CONTROL,
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/export",
        handle=export,
        needs="admin",
        query=ExportQuery,
        media_types=_FILES,
        raises=(*_READ, MissingExtra),
    ),
    Operation(method="GET", path="/healthz", handle=healthz, answers=Health, always=True),
    Operation(method="GET", path="/readyz", handle=readyz, answers=Health, always=True, raises=(NotReady,)),
    Operation(
        method="GET",
        path="/metrics",
        handle=metrics,
        needs="admin",
        media_types=("text/plain",),
        always=True,
        all_rankers=True,
    ),
    Operation(method="GET", path="/openapi.json", handle=openapi, always=True),
    Operation(method="GET", path="/docs", handle=docs, media_types=("text/html",), always=True),
    Operation(method="GET", path="/docs/{file}", handle=asset, always=True, hidden=True),
    Operation(method="GET", path="/dashboard", handle=dashboard, media_types=("text/html",), always=True),
    Operation(method="GET", path="/dashboard/{name}", handle=dashboard, always=True, hidden=True),
    Operation(method="GET", path="/dashboard/files/{file}", handle=dashboard_file, always=True, hidden=True),
)
