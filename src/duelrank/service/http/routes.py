"""The API: one table of operations with their handlers, from which router, authentication and documentation are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_origin
from urllib.parse import parse_qsl

import msgspec

from duelrank.adapters.ubi import UbiEvent
from duelrank.core.errors import (
    Conflict,
    DataFormatError,
    DuelrankError,
    InvalidRecipe,
    InvalidValue,
    LimitExceeded,
    MissingExtra,
    NotReady,
    ShapeMismatch,
    UnknownName,
)
from duelrank.export import FORMATS
from duelrank.export import export as export_model
from duelrank.export.base import export_query, options_of
from duelrank.export.pinned import PINNED_FORMATS, pinned_format
from duelrank.service.definition import Step
from duelrank.service.http import schema
from duelrank.service.http.auth import Caller
from duelrank.service.http.dashboard import FILES, POLICY, live_messages, read_file, render
from duelrank.service.http.decoding import NDJSON, decode_body, decode_events, decode_logged, decode_rank
from duelrank.service.http.errors import NoSuchPage, NoWebhook, wrong_shape
from duelrank.service.http.openapi import ASSETS, CONTENT_SECURITY_POLICY
from duelrank.service.intake import remembered_query
from duelrank.service.service import MAX_REMEMBERED, Service
from duelrank.service.webhooks import without_secrets

if TYPE_CHECKING:
    from duelrank.service.http.app import AppState

JSON = b"application/json"
MSGPACK = "application/msgpack"

Guarded = TypeVar("Guarded", schema.RankerInfo, schema.GuardInfo)


class Reply(NamedTuple):
    """A complete answer."""

    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(NamedTuple):
    """An answer that continues until its chunks end or the client disconnects."""

    chunks: AsyncIterator[bytes]
    media_type: bytes


class Call(msgspec.Struct):
    """A request as a handler receives it: the caller, the parameters of the path, the decoded query and the decoded body."""

    state: AppState
    service: Service
    caller: Caller
    path: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    query: Any = None
    body: Any = None

    @property
    def name(self) -> str:
        """The name of the ranker or experiment in the path."""
        return self.path["name"]

    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the features of the ranker in the path, none if there is no such ranker."""
        with suppress(DuelrankError):
            return self.service.ranker(self.name).features
        return ()

    def check_webhook(
        self, guard: schema.GuardSpec | msgspec.UnsetType | None, present: schema.GuardSpec | None = None
    ) -> None:
        """Raise if a caller without an admin key for all rankers sets a webhook.

        A caller that may change the ranker may repeat the address of the present guard.
        """
        if not isinstance(guard, schema.GuardSpec) or guard.webhook is None:
            return
        if self.caller.rankers and (present is None or guard.webhook != present.webhook):
            raise NoWebhook(
                "this API key is for some rankers only, so only the operator may set guard.webhook: with "
                "'duelrank serve --webhook URL', or with a key for all rankers ('duelrank keys create --scope admin')"
            )
        if not self.caller.admin:
            raise NoWebhook(
                "without API keys every user of this machine is a caller, so only the operator may set guard.webhook: with "
                "'duelrank serve --webhook URL', or with a key ('duelrank keys create --scope admin')"
            )

    def redacted(self, info: Guarded) -> Guarded:
        """Return an answer without the secret parts of a webhook's address, unless the caller has an admin key."""
        guard = info.guard
        if guard is None or guard.webhook is None or self.caller.admin:
            return info
        hidden = msgspec.structs.replace(guard, webhook=without_secrets(guard.webhook))
        return msgspec.structs.replace(info, guard=hidden)


Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path, for the router, the authentication and the documentation.

    Parameters
    ----------
    method, path
        Method and path.
    handle
        Handler: returns a value that is encoded as JSON, a `Reply` or a `Stream`; its docstring is the documentation.
    needs
        Scope that the key needs; None if no key is needed.
    takes
        Type of the body; None if there is none.
    decode
        Decodes the body; by default from JSON to ``takes``. Large bodies are decoded in a thread.
    query
        Struct of the query string.
    answers
        Type of the answer; None if it has no schema.
    statuses
        Statuses of success.
    raises
        Errors of this operation, in addition to those of every request.
    before_ready
        Whether it is available before the rankers are restored.
    all_rankers
        Whether it shows all rankers; keys for some rankers are refused.
    bodies
        Documented types of the body by media type; by default ``takes`` as JSON.
    examples
        Example bodies by name.
    example_ranker
        Name of the ranker in the examples.
    media_types
        Media types of the answer.
    hidden
        Whether it is left out of the documentation.
    """

    method: str
    path: str
    handle: Handler
    needs: str | None = None
    takes: Any = None
    decode: Callable[[bytes, Call], Any] | None = None
    query: Any = None
    answers: Any = None
    statuses: tuple[int, ...] = (200,)
    raises: tuple[type[Exception], ...] = ()
    before_ready: bool = False
    all_rankers: bool = False
    bodies: Mapping[str, Any] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)
    example_ranker: str = "shop"
    media_types: tuple[str, ...] = ("application/json",)
    hidden: bool = False

    def __post_init__(self) -> None:
        if self.takes is not None and self.decode is None:
            object.__setattr__(self, "decode", _json_decoder(self.takes))

    def decoded_query(self, text: bytes) -> Any:
        """Decode a query string; parameters that may be repeated are tuples in the struct of the operation."""
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
    return lambda body, call: decode_body(decode, body, wanted)


_encode_msgpack = msgspec.msgpack.Encoder().encode


def _decode_rank(body: bytes, call: Call) -> schema.RankRequest:
    large = len(body) > call.state.settings.heavy
    return decode_rank(body, call.headers.get(b"content-type", b""), large, call.feature_names)


def _decode_feedback(body: bytes, call: Call) -> Any:
    kind, limit = call.headers.get(b"content-type", b""), call.service.settings.max_events
    return decode_events(body, kind, limit, len(body) > call.state.settings.heavy)


def _decode_logged(body: bytes, call: Call) -> Any:
    kind, limit = call.headers.get(b"content-type", b""), call.service.settings.max_events
    return decode_logged(body, kind, limit, call.feature_names)


# Query strings


class ModelQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version, by default the current one."""

    version: int | None = None


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The step, and the time range in seconds since 1970, of which the newest 2,000 steps are returned."""

    step: Step = "minute"
    start: float | None = None
    end: float | None = None


class DeleteQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the ranker or experiment again."""

    confirm: str


class MemoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query, by its text or its key; without it, the number of queries with the largest effect."""

    query: str | None = None
    query_key: str | None = None
    limit: int = MAX_REMEMBERED


class ForgetQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query, by its text or its key, or the id of a document; or the name of the ranker, to forget everything."""

    query: str | None = None
    query_key: str | None = None
    document: str | None = None
    confirm: str | None = None


class PinnedParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The format, the number of queries and of their documents, and the least number of clicks on a document."""

    format: Literal[tuple(sorted(PINNED_FORMATS))] = "json"  # type: ignore[valid-type]
    queries: int = 100
    evidence: float = 10.0
    documents: int = 3


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The step of the history in the messages."""

    step: Step = "minute"


class CompareQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The impression, and the versions, by default the first and the current one."""

    impression: str
    one: int | None = None
    other: int | None = None


#: Made from the registered formats, including those of extensions, which are loaded before the service is imported.
ExportQuery = export_query()


# Rank and feedback


async def rank(call: Call) -> schema.RankAnswer | Reply:
    """Order the documents of one query.

    Show them in this order, and send feedback with the same impression_id. A request with a known impression_id, such as after a
    lost answer or for the next page, returns the same order; a larger length than the first time is a conflict. Large
    requests are smaller and faster with all documents as one table, in JSON or as application/msgpack; with Accept:
    application/msgpack, the answer is MessagePack too.
    """
    began = perf_counter()
    answer = await call.service.rank(call.name, call.body)
    call.state.metrics.record_rank_time(call.name, perf_counter() - began)
    if b"msgpack" in call.headers.get(b"accept", b""):
        return Reply(_encode_msgpack(answer), 200, MSGPACK.encode())
    return answer


async def page(call: Call) -> schema.RankAnswer:
    """Return another page of an impression, without its documents.

    Rank once with the ``length`` of all pages and the size of the first ``page``. The ranker learns from the pages that were
    returned, each click at its position in the whole list. A page can be returned again, also after the impression is closed.
    """
    return await call.service.page(call.name, call.body)


async def feedback(call: Call) -> schema.FeedbackCounts:
    """Accept feedback on impressions.

    One event, an array of events, or one on each line (application/x-ndjson), in our own form or as UBI 1.3.0. An invalid event
    does not affect the others; the answer lists the invalid ones, with reasons. An event counts once, however often it is sent.
    """
    return await call.service.feedback(call.name, call.body)


# Experiments


async def create_experiment(call: Call) -> Reply:
    """Create an experiment: a comparison of two to ten systems on live clicks.

    The same request again changes nothing and answers 200 instead of 201; another experiment, or a ranker, with the same name is a
    conflict.
    """
    spec: schema.ExperimentSpec = call.body
    for name in (spec.name, *spec.rankers):
        call.caller.check(name)
    try:
        info, new = await call.service.create_experiment(spec)
    except UnknownName as error:  # of a multileaver: the path was valid, the body was not
        raise InvalidRecipe(str(error)) from None
    return Reply(msgspec.json.encode(info), 201 if new else 200)


async def experiments(call: Call) -> list[schema.ExperimentInfo]:
    """List the experiments that the key is for."""
    found = await asyncio.to_thread(call.service.experiments)
    return [each for each in found if call.caller.may_use(each.name)]


async def experiment(call: Call) -> schema.ExperimentInfo:
    """Show an experiment: counts, wins of each pair of systems, p-values and bands that are valid at any time, and the verdict."""
    return await asyncio.to_thread(call.service.experiment, call.name)


async def experiment_history(call: Call) -> schema.ExperimentHistory:
    """Show the win rates of an experiment over time, with their bands."""
    return await asyncio.to_thread(call.service.experiment_history, call.name)


async def show(call: Call) -> schema.ShowAnswer:
    """Merge the lists of the systems into the one to show, which is stored before the answer.

    Send feedback with the same impression_id. A request with a known impression_id, such as after a lost answer, returns the same
    list.
    """
    began = perf_counter()
    answer = await call.service.show(call.name, call.body)
    call.state.metrics.record_rank_time(call.name, perf_counter() - began)
    return answer


async def experiment_feedback(call: Call) -> schema.FeedbackCounts:
    """Accept feedback on lists of an experiment, in the same forms as that on lists of a ranker."""
    return await call.service.experiment_feedback(call.name, call.body)


async def stop_experiment(call: Call) -> schema.ExperimentInfo:
    """Stop an experiment for good: it shows no new lists, and counts the open ones when they close; its result stays."""
    return await call.service.stop_experiment(call.name)


async def delete_experiment(call: Call) -> Reply:
    """Delete an experiment and all its data permanently.

    To confirm this, repeat its name: ?confirm=NAME.
    """
    _check_confirmed(call)
    await call.service.delete_experiment(call.name)
    return Reply(b"", 204)


# Rankers


async def create(call: Call) -> Reply:
    """Create a ranker.

    The same request again changes nothing and answers 200 instead of 201; another ranker with the same name is a conflict.
    """
    spec: schema.RankerSpec = call.body
    call.caller.check(spec.name)
    call.check_webhook(spec.guard)
    if spec.start is not None and spec.start.ranker is not None:
        call.caller.check(spec.start.ranker)
    try:
        info, new = await call.service.create(spec)
    except UnknownName as error:  # of an algorithm: the path was valid, the body was not
        raise InvalidRecipe(str(error)) from None
    return Reply(msgspec.json.encode(call.redacted(info)), 201 if new else 200)


async def rankers(call: Call) -> list[schema.RankerInfo]:
    """List the rankers that the key is for."""
    return [call.redacted(info) for info in call.service.rankers() if call.caller.may_use(info.name)]


async def overview(call: Call) -> list[schema.Overview]:
    """Show the rankers that the key is for, with their guards and their traffic, those with an alarm first."""
    found = await asyncio.to_thread(call.service.overview)
    return [_redacted(call, each) for each in found if call.caller.may_use(each.ranker.name)]


def _redacted(call: Call, each: schema.Overview) -> schema.Overview:
    guard = None if each.guard is None else call.redacted(each.guard)
    return msgspec.structs.replace(each, ranker=call.redacted(each.ranker), guard=guard)


async def ranker(call: Call) -> schema.RankerInfo:
    """Show one ranker."""
    return call.redacted(await asyncio.to_thread(call.service.ranker, call.name))


async def guard(call: Call) -> schema.GuardInfo:
    """Show the evidence of the guard of a ranker.

    Wins and losses against your own order, the confidence band of the win rate and the evidence of gain, which are valid at all
    times; the distance to an alarm; the rung; and the last alarm, with its reason.
    """
    return call.redacted(await asyncio.to_thread(call.service.guard, call.name))


async def live(call: Call) -> Stream:
    """Stream the state of a ranker, about once a second, as server-sent events.

    The data of each event is a JSON object: the ranker and its guard, the lag of the leader, events per second, and the newest
    steps of the history. The stream ends when the service stops or the key is revoked; then connect again.
    """
    await asyncio.to_thread(call.service.ranker, call.name)  # raises before the stream begins
    return Stream(live_messages(call, call.query.step), b"text/event-stream")


async def impressions(call: Call) -> list[schema.ImpressionInfo]:
    """List the newest impressions whose features are still in the store, newest first.

    Features are dropped some time after an impression was learned from; see `duelrank serve --keep-features`.
    """
    return await asyncio.to_thread(call.service.impressions, call.name)


async def backfill(call: Call) -> schema.BackfillCounts:
    """Let a ranker learn from logged lists of another system, before it gets traffic.

    One list, an array of lists, or one on each line (application/x-ndjson), each with its documents in the order in which they were
    shown, and the feedback. A list counts once, however often it is sent in the retention time; an invalid one does not affect the
    others.
    """
    return await call.service.backfill(call.name, call.body)


async def compare(call: Call) -> schema.Comparison:
    """Rank a stored impression by two versions, by default the first and the current one."""
    query: CompareQuery = call.query
    return await asyncio.to_thread(call.service.compare, call.name, query.impression, query.one, query.other)


async def change(call: Call) -> schema.RankerInfo:
    """Change a ranker, without losing what it has learned.

    Fields that are not given stay as they are. New features start with zero weight; retired features may still be sent, and are
    ignored. The weights of another representation are fitted to the present scores, on stored lists; the answer says how well. A
    guard is replaced as a whole; null removes it.
    """
    present = (await asyncio.to_thread(call.service.ranker, call.name)).guard if call.caller.rankers else None
    call.check_webhook(call.body.guard, present)
    return call.redacted(await call.service.change(call.name, call.body))


async def delete(call: Call) -> Reply:
    """Delete a ranker and all its data permanently; a running experiment that compares it has to be stopped first.

    To confirm this, repeat its name: ?confirm=NAME.
    """
    _check_confirmed(call)
    await call.service.delete(call.name)
    return Reply(b"", 204)


def _check_confirmed(call: Call) -> None:
    if call.query.confirm != call.name:
        raise InvalidValue(
            f"to delete {call.name!r} permanently, repeat its name as confirm; got {call.query.confirm[:200]!r}"
        )


async def freeze(call: Call) -> schema.RankerInfo:
    """Stop learning, and serve the current weights without exploration."""
    return call.redacted(await call.service.control(call.name, "freeze"))


async def resume(call: Call) -> schema.RankerInfo:
    """Continue learning, after a freeze or an alarm; the guard then starts again."""
    return call.redacted(await call.service.control(call.name, "resume"))


async def rollback(call: Call) -> schema.RankerInfo:
    """Restore the weights of an earlier version, and its representation, as a new version."""
    return call.redacted(await call.service.control(call.name, "rollback", call.body.version))


async def label(call: Call) -> schema.VersionInfo:
    """Keep a version under a label; "" removes the label.

    Older versions without a label are removed, except some at regular intervals.
    """
    return await call.service.label(call.name, call.body.version, call.body.label)


async def pin(call: Call) -> schema.RankerInfo:
    """Let a shadow serve the rankings of one version, instead of your own order, while it continues to learn."""
    return call.redacted(await call.service.control(call.name, "pin", call.body.version))


async def unpin(call: Call) -> schema.RankerInfo:
    """Let a shadow serve your own order again."""
    return call.redacted(await call.service.control(call.name, "unpin"))


async def memory(call: Call) -> schema.MemoryInfo:
    """Show what a ranker remembers of a query: its documents with clicks, views, and what they add to scores.

    Without a query, those queries are shown in which the memory has the largest effect.
    """
    asked = call.query.query is not None or call.query.query_key is not None
    query = remembered_query(call.query, call.service.settings) if asked else None
    return await asyncio.to_thread(call.service.memory, call.name, query, call.query.limit)


async def export_memory(call: Call) -> Reply:
    """Export the documents that users of queries chose as pinned documents of a search engine.

    The queries with the most views; of each the documents that rise and have enough clicks, the best first.
    """
    query, format = call.query, pinned_format(call.query.format)
    chosen = await asyncio.to_thread(call.service.pinned, call.name, query.queries, query.evidence, query.documents)
    file = ((b"content-disposition", f'attachment; filename="{format.file}"'.encode()),)
    return Reply(format.write(chosen).encode(), 200, format.media_type.encode(), file)


async def forget(call: Call) -> schema.RankerInfo:
    """Forget a query, or a document in all queries, such as one that was deleted; or everything."""
    asked, query = call.query, remembered_query(call.query, call.service.settings)
    named = sum(each is not None for each in (asked.query, asked.query_key, asked.document, asked.confirm))
    document = asked.document or ""
    if named != 1 or not (query or document or asked.confirm == call.name):
        raise InvalidValue(
            f"name either a query or a document; or to forget everything, repeat the ranker as confirm={call.name}"
        )
    return call.redacted(await call.service.forget(call.name, query, document))


# Models


async def model(call: Call) -> schema.Model:
    """Show the weights by feature, of the current version or of an earlier one.

    The weights of a feature are a list if its representation has several columns; its curve is easier to interpret. Algorithms with
    a belief also return the standard deviation of each weight. A ranker that is not linear, such as a neural network, has neither
    weights nor curves: 422.
    """
    return await asyncio.to_thread(call.service.weights, call.name, call.query.version)


async def curves(call: Call) -> schema.ModelCurves:
    """Show what each feature adds to the score, as a curve, the most important feature first.

    For the current version or an earlier one.
    """
    return await asyncio.to_thread(call.service.curves, call.name, call.query.version)


async def last_step(call: Call) -> schema.LastStep:
    """Show what was learned from the last impression.

    Its clicked and examined documents, the direction of the clicks, the direction after the projection, and the weights before and
    after. It is computed on request. If the leader, which alone has it, is not a process of this server, the answer is 503.
    """
    return await asyncio.to_thread(call.service.last_step, call.name)


async def history(call: Call) -> schema.History:
    """Show the history of a ranker, in steps of a minute, an hour or a day.

    Lists, clicks, reward, weights and the guard as one list of numbers each, of at most the 2,000 newest steps; and control
    events as marks. Steps without events are left out. The history survives restarts.
    """
    query: HistoryQuery = call.query
    return await asyncio.to_thread(call.service.history, call.name, query.step, query.start, query.end)


async def versions(call: Call) -> list[schema.VersionInfo]:
    """List the versions that a rollback can use, oldest first."""
    return await asyncio.to_thread(call.service.versions, call.name)


async def export(call: Call) -> Reply:
    """Export a model in the format of a search engine, or explain why that format cannot represent it."""
    query = call.query
    found = await asyncio.to_thread(call.service.model, call.name, query.version)
    content = await asyncio.to_thread(export_model, found, query.format, **options_of(query))
    form = FORMATS[query.format]
    file = f'attachment; filename="{found.versioned_name}{form.suffix}"'
    return Reply(content, 200, form.media_type.encode(), ((b"content-disposition", file.encode()),))


# The service itself


async def healthz(call: Call) -> schema.Health:
    """Report that the process is alive."""
    return schema.Health("ok")


async def readyz(call: Call) -> schema.Health:
    """Report that requests are answered, and whether a process learns; 503 until then, and while the store fails."""
    if not call.service.ready:
        raise NotReady("kernels are being compiled, or rankers are being restored")
    if call.service.failure is not None:
        raise NotReady("the background of the service fails; the server's log has the reason")
    return schema.Health("ready", None if call.service.read_only else call.service.learning)


async def metrics(call: Call) -> Reply:
    """Return the metrics, for Prometheus."""
    return Reply(call.state.metrics.text(), 200, call.state.metrics.media_type)


async def openapi(call: Call) -> Reply:
    """Return the OpenAPI document."""
    return Reply(call.state.document)


async def docs(call: Call) -> Reply:
    """Show the documentation, in which every operation can be tried."""
    return Reply(call.state.page, 200, b"text/html; charset=utf-8", CONTENT_SECURITY_POLICY)


async def asset(call: Call) -> Reply:
    """Send a file of the documentation."""
    return _file(call, ASSETS)


async def dashboard(call: Call) -> Reply:
    """Show the dashboard: all rankers, or one of them live."""
    keys = call.state.gate.keys.in_force
    page = render(call.path.get("name", ""), keys, call.service.read_only)
    return Reply(page, 200, b"text/html; charset=utf-8", POLICY)


async def dashboard_file(call: Call) -> Reply:
    """Send a file of the dashboard."""
    return _file(call, FILES)


async def browser_script(call: Call) -> Reply:
    """Send the script that reports clicks on lists from a web page."""
    return Reply(read_file("duelrank.js"), 200, b"text/javascript; charset=utf-8", _CACHED)


_CACHED = ((b"cache-control", b"max-age=86400"),)


def _file(call: Call, files: Mapping[str, tuple[bytes, Callable[[], bytes]]]) -> Reply:
    name = call.path["file"]
    if name not in files:
        raise NoSuchPage(f"there is no file {name[:200]!r} here")
    media_type, read = files[name]
    return Reply(read(), 200, media_type, _CACHED)


_EXPERIMENTS = "/v1/experiments"
_RANKERS = "/v1/rankers"
_RANKER = "/v1/rankers/{name}"
_EXPORT_TYPES = ("application/json", "text/plain", "application/octet-stream")
_CONTROL_ERRORS = (InvalidValue, UnknownName, Conflict)
_READ_ERRORS = (UnknownName, InvalidValue)

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
    "guard": {"share": 0.2, "on_alarm": "baseline", "promote": [0.5, 1.0]},
}
_REMEMBERING = {
    "name": "remembering",
    "algorithm": "remember >> wmgd-dsp",
    "features": ["bm25", "rating", "price"],
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
_EXPERIMENT = {"name": "spring", "systems": ["engine", "semantic"]}
_WITH_RANKER = {"name": "with-ranker", "systems": ["engine"], "rankers": ["shop"], "length": 20, "level": 0.01}
_LISTS = {"engine": ["d7", "d2", "d9"], "semantic": ["d2", "d4"]}
_CLICK = {"event_id": "e1", "impression_id": "i1", "clicks": ["d2"], "close": True}
_UBI = {
    "action_name": "click",
    "query_id": "i2",
    "timestamp": "2026-01-02T03:04:05Z",
    "event_attributes": {"object": {"object_id": "d1"}, "position": {"ordinal": 1}},
}
_EVENT = schema.FeedbackEvent | UbiEvent
_OF_A_VERSION: Mapping[str, Any] = {
    "takes": schema.VersionNumber,
    "examples": {"the first one": {"version": 1}},
    "raises": _CONTROL_ERRORS,
}
_LOGGED = {
    "impression_id": "2025-11-03-7",
    "documents": [
        {"id": "d7", "features": {"bm25": 14.2, "rating": 4.0, "price": 15.0}},
        {"id": "d4", "features": {"bm25": 11.0, "rating": 4.9, "price": 22.0}},
    ],
    "clicks": ["d4"],
}


def _on_ranker(method: str, path: str, handle: Handler, answers: Any, **others: Any) -> Operation:
    """Return an operation of one ranker, by default for keys with the scope admin."""
    return Operation(
        method=method,
        path=f"{_RANKER}{path}",
        handle=handle,
        answers=answers,
        **{"needs": "admin", "raises": _READ_ERRORS} | others,
    )


def _on_experiment(method: str, path: str, handle: Handler, answers: Any, **others: Any) -> Operation:
    """Return an operation of one experiment, by default for keys with the scope rank."""
    given = {"needs": "rank", "raises": (UnknownName,), "example_ranker": "spring"} | others
    return Operation(method=method, path=f"{_EXPERIMENTS}/{{name}}{path}", handle=handle, answers=answers, **given)


# The router tries them in this order, so the most frequent ones are first.
OPERATIONS = (
    _on_ranker(
        "POST",
        "/rank",
        rank,
        schema.RankAnswer,
        needs="rank",
        takes=schema.RankRequest,
        decode=_decode_rank,
        bodies={"application/json": schema.RankRequest, MSGPACK: schema.RankRequest},
        examples=_RANK,
        media_types=("application/json", MSGPACK),
        raises=(UnknownName, InvalidValue, ShapeMismatch, LimitExceeded, Conflict),
    ),
    _on_ranker(
        "POST",
        "/feedback",
        feedback,
        schema.FeedbackCounts,
        needs="feedback",
        takes=schema.FeedbackEvent,
        decode=_decode_feedback,
        bodies={"application/json": _EVENT | list[_EVENT], NDJSON: str},
        examples={"a click": _CLICK, "UBI 1.3.0": _UBI, "several events": [{"impression_id": "i2", "close": True}]},
        raises=(UnknownName, InvalidValue, LimitExceeded),
    ),
    _on_ranker(
        "POST",
        "/page",
        page,
        schema.RankAnswer,
        needs="rank",
        takes=schema.PageRequest,
        examples={"the second page": {"impression_id": "i1", "start": 11, "size": 10}},
        raises=(UnknownName, InvalidValue),
    ),
    Operation(
        method="POST",
        path=_RANKERS,
        handle=create,
        needs="admin",
        takes=schema.RankerSpec,
        examples={
            "a ranker that learns": _SPEC,
            "a shadow": _SHADOW,
            "a guarded ranker": _GUARDED,
            "a ranker that remembers queries": _REMEMBERING,
        },
        answers=schema.RankerInfo,
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
    Operation(method="GET", path=_RANKERS, handle=rankers, needs="rank", answers=list[schema.RankerInfo]),
    Operation(
        method="POST",
        path=_EXPERIMENTS,
        handle=create_experiment,
        needs="admin",
        takes=schema.ExperimentSpec,
        examples={"two systems": _EXPERIMENT, "your order against a ranker": _WITH_RANKER},
        answers=schema.ExperimentInfo,
        statuses=(200, 201),
        raises=(Conflict, InvalidValue, InvalidRecipe, LimitExceeded, MissingExtra),
    ),
    Operation(method="GET", path=_EXPERIMENTS, handle=experiments, needs="rank", answers=list[schema.ExperimentInfo]),
    _on_experiment(
        "POST",
        "/show",
        show,
        schema.ShowAnswer,
        takes=schema.ShowRequest,
        examples={"two lists": {"impression_id": "s1", "user_id": "u7", "lists": _LISTS}},
        raises=(UnknownName, InvalidValue, ShapeMismatch, LimitExceeded, Conflict),
    ),
    _on_experiment(
        "POST",
        "/feedback",
        experiment_feedback,
        schema.FeedbackCounts,
        needs="feedback",
        takes=schema.FeedbackEvent,
        decode=_decode_feedback,
        bodies={"application/json": _EVENT | list[_EVENT], NDJSON: str},
        examples={"a click": {"impression_id": "s1", "clicks": ["d2"], "close": True}},
        raises=(UnknownName, InvalidValue, LimitExceeded),
    ),
    _on_experiment("GET", "", experiment, schema.ExperimentInfo),
    _on_experiment("GET", "/history", experiment_history, schema.ExperimentHistory),
    _on_experiment(
        "POST", "/stop", stop_experiment, schema.ExperimentInfo, needs="admin", raises=(UnknownName, NotReady)
    ),
    _on_experiment(
        "DELETE",
        "",
        delete_experiment,
        None,
        needs="admin",
        query=DeleteQuery,
        statuses=(204,),
        media_types=(),
        raises=_READ_ERRORS,
    ),
    Operation(method="GET", path="/v1/overview", handle=overview, needs="admin", answers=list[schema.Overview]),
    _on_ranker("GET", "", ranker, schema.RankerInfo, needs="rank", raises=(UnknownName,)),
    _on_ranker(
        "PATCH",
        "",
        change,
        schema.RankerInfo,
        takes=schema.Change,
        examples={
            "explore less": {"exploration": 0.5},
            "longer rankings, closed earlier": {"length": 20, "close_after": 600},
            "a guard that only tells": {"guard": {"on_alarm": "tell", "promote": [1.0]}},
            "no guard": {"guard": None},
            "another representation": {"representation": "curves"},
        },
        raises=(*_CONTROL_ERRORS, InvalidRecipe, LimitExceeded, NoWebhook),
    ),
    _on_ranker("GET", "/guard", guard, schema.GuardInfo, needs="rank", example_ranker="guarded"),
    _on_ranker("GET", "/live", live, schema.Live, query=LiveQuery, media_types=("text/event-stream",)),
    _on_ranker("GET", "/impressions", impressions, list[schema.ImpressionInfo], raises=(UnknownName,)),
    _on_ranker(
        "POST",
        "/impressions",
        backfill,
        schema.BackfillCounts,
        takes=schema.LoggedImpression,
        decode=_decode_logged,
        bodies={"application/json": schema.LoggedImpression | list[schema.LoggedImpression], NDJSON: str},
        examples={"a list of a log": _LOGGED},
        example_ranker="guarded",
        raises=(UnknownName, InvalidValue, InvalidRecipe, LimitExceeded, Conflict),
    ),
    _on_ranker("GET", "/compare", compare, schema.Comparison, query=CompareQuery),
    _on_ranker("DELETE", "", delete, None, query=DeleteQuery, statuses=(204,), media_types=(), raises=_CONTROL_ERRORS),
    _on_ranker("GET", "/model", model, schema.Model, query=ModelQuery),
    _on_ranker("GET", "/curves", curves, schema.ModelCurves, query=ModelQuery),
    _on_ranker("GET", "/last-step", last_step, schema.LastStep, raises=(UnknownName, InvalidRecipe)),
    _on_ranker("GET", "/history", history, schema.History, query=HistoryQuery),
    _on_ranker("GET", "/memory", memory, schema.MemoryInfo, query=MemoryQuery, example_ranker="remembering"),
    _on_ranker(
        "GET",
        "/memory/export",
        export_memory,
        None,
        query=PinnedParameters,
        example_ranker="remembering",
        media_types=("application/json", "application/xml"),
    ),
    _on_ranker(
        "DELETE",
        "/memory",
        forget,
        schema.RankerInfo,
        query=ForgetQuery,
        example_ranker="remembering",
        raises=_CONTROL_ERRORS,
    ),
    _on_ranker("GET", "/model/versions", versions, list[schema.VersionInfo], raises=(UnknownName,)),
    _on_ranker("POST", "/freeze", freeze, schema.RankerInfo, raises=_CONTROL_ERRORS),
    _on_ranker("POST", "/resume", resume, schema.RankerInfo, raises=_CONTROL_ERRORS),
    _on_ranker(
        "POST",
        "/label",
        label,
        schema.VersionInfo,
        takes=schema.VersionLabel,
        examples={"keep the first version": {"version": 1, "label": "before the sale"}},
        raises=(*_CONTROL_ERRORS, LimitExceeded),
    ),
    _on_ranker("POST", "/rollback", rollback, schema.RankerInfo, **_OF_A_VERSION),
    _on_ranker("POST", "/pin", pin, schema.RankerInfo, example_ranker="shadow", **_OF_A_VERSION),
    _on_ranker("POST", "/unpin", unpin, schema.RankerInfo, example_ranker="shadow", raises=_CONTROL_ERRORS),
    _on_ranker(
        "GET",
        "/export",
        export,
        None,
        query=ExportQuery,
        media_types=_EXPORT_TYPES,
        raises=(*_READ_ERRORS, MissingExtra),
    ),
    Operation(method="GET", path="/healthz", handle=healthz, answers=schema.Health, before_ready=True),
    Operation(
        method="GET", path="/readyz", handle=readyz, answers=schema.Health, before_ready=True, raises=(NotReady,)
    ),
    Operation(
        method="GET",
        path="/metrics",
        handle=metrics,
        needs="admin",
        media_types=("text/plain",),
        before_ready=True,
        all_rankers=True,
    ),
    Operation(method="GET", path="/openapi.json", handle=openapi, before_ready=True),
    Operation(method="GET", path="/docs", handle=docs, media_types=("text/html",), before_ready=True),
    Operation(method="GET", path="/docs/{file}", handle=asset, before_ready=True, hidden=True),
    Operation(method="GET", path="/dashboard", handle=dashboard, media_types=("text/html",), before_ready=True),
    Operation(method="GET", path="/dashboard/{name}", handle=dashboard, before_ready=True, hidden=True),
    Operation(method="GET", path="/dashboard/files/{file}", handle=dashboard_file, before_ready=True, hidden=True),
    Operation(method="GET", path="/duelrank.js", handle=browser_script, before_ready=True, hidden=True),
)
