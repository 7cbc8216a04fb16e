"""The service as an ASGI application, and the way of one request: let in, read, decoded, answered, encoded, counted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from secrets import token_hex
from time import perf_counter

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from duelrank import __version__
from duelrank.core.errors import NotReady
from duelrank.serving.http.auth import Caller, Gate, KeyRing
from duelrank.serving.http.errors import (
    BodyTooLarge,
    ClientGone,
    NoSuchPage,
    TooBusy,
    WrongMethod,
    WrongScope,
    explain,
)
from duelrank.serving.http.limits import BodyReader, Turns, WebSettings, throw_away
from duelrank.serving.http.metrics import Metrics
from duelrank.serving.http.openapi import describe, page
from duelrank.serving.http.routes import OPERATIONS, Call, Operation, Reply, Stream
from duelrank.serving.service import Service

__all__ = ["Desk", "Endpoint", "create_app"]

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_encode = msgspec.json.Encoder().encode


@dataclass
class Desk:
    """What all endpoints share."""

    service: Service
    gate: Gate
    settings: WebSettings
    bodies: BodyReader
    turns: Turns
    metrics: Metrics
    document: bytes = b"{}"
    page: bytes = b""
    inside: int = 0
    streams: int = 0

    def __post_init__(self) -> None:
        self._ids, self._prefix = count(1), token_hex(4)

    def request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's own ``X-Request-ID`` where it is a plain one, else a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode("ascii")
        return f"{self._prefix}-{next(self._ids):x}"

    def enter(self) -> None:
        """Become one of the requests that are being answered; `leave` must follow."""
        if self.inside >= self.settings.max_requests:
            raise TooBusy(f"{self.inside:,} requests are being answered already")
        self.inside += 1

    def leave(self) -> None:
        """Be no longer one of them."""
        self.inside -= 1

    def open_stream(self) -> None:
        """Become one of the answers that go on, which have a limit of their own; `close_stream` must follow."""
        if self.streams >= self.settings.max_streams:
            raise TooBusy(f"{self.streams:,} live streams are open already")
        self.streams += 1

    def close_stream(self) -> None:
        """Be no longer one of them."""
        self.streams -= 1


def create_app(
    service: Service,
    keys: KeyRing,
    settings: WebSettings | None = None,
    operations: Sequence[Operation] = OPERATIONS,
    metrics: Metrics | None = None,
) -> Starlette:
    """Put a service on the web; it starts and stops with the application.

    The endpoints are ASGI applications of their own, which Starlette only routes to: bodies are decoded by msgspec straight
    into the values that the service takes, and nothing else is done on the way.
    """
    settings = settings or WebSettings()
    service.observer = metrics = metrics or Metrics()
    desk = Desk(
        service,
        Gate(keys, settings),
        settings,
        BodyReader(settings.max_body, settings.max_waiting),
        Turns(settings.heavy_at_once, settings.heavy_waiting),
        metrics,
        _encode(describe(operations, __version__)),
        page("duelrank"),
    )
    routes = [Route(one.path, Endpoint(one, desk), methods=[one.method]) for one in operations]
    app = _Application(routes=routes, lifespan=_lifespan)
    app.router.redirect_slashes = False
    app.state.desk = desk
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    desk: Desk = app.state.desk
    await desk.service.start()
    refreshing = asyncio.create_task(desk.gate.keys.keep_fresh())
    try:
        yield
    finally:
        refreshing.cancel()
        with suppress(asyncio.CancelledError):
            await refreshing
        await desk.service.stop()


class _Application(Starlette):
    """Starlette without its layers around the router: they turn exceptions into answers, which our endpoints do themselves."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the router, with our own answer to what it finds nothing for."""

        async def routed(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await self.router(scope, receive, send)
            except HTTPException:
                await _not_routed(self, scope, send)

        return routed


async def _not_routed(app: Starlette, scope: Scope, send: Send) -> None:
    """Answer what the router found nothing for."""
    desk: Desk = app.state.desk
    path, method, allowed = scope["path"][:200], scope["method"], _methods(app, scope)
    refusal: Exception = NoSuchPage(f"there is nothing at {path}; GET /docs lists what there is")
    if allowed:
        refusal = WrongMethod(f"{path} has {allowed}, not {method}", allowed)
    request_id = desk.request_id(dict(scope["headers"]))
    reply = _refusal(refusal, request_id)
    desk.metrics.requests("other", "other")(reply.status, 0.0)
    await _send(send, reply, request_id)


def _methods(app: Starlette, scope: Scope) -> str:
    """Return what methods this path has, over all of its operations."""
    found: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, operation: Operation, desk: Desk) -> None:
        self.operation = operation
        self.desk = desk
        self._about_a_ranker = "{name}" in operation.path
        self._count = desk.metrics.requests(operation.method, operation.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        began = perf_counter()
        desk = self.desk
        headers = dict(scope["headers"])
        request_id, ending = desk.request_id(headers), None
        try:
            desk.enter()
            try:
                reply = await self._reply(scope, headers, receive)
            finally:
                desk.leave()
            if isinstance(reply, Stream):
                desk.open_stream()
        except ClientGone:
            return
        except BodyTooLarge as error:
            reply, ending = _refusal(error, request_id), partial(throw_away, receive)
        except Exception as error:
            reply = _refusal(error, request_id)
        if isinstance(reply, Stream):
            self._count(200, perf_counter() - began)
            await _send_stream(send, receive, reply, request_id, desk.close_stream)
        else:
            await _send(send, reply, request_id, ending)
            self._count(reply.status, perf_counter() - began)

    async def _reply(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> Reply | Stream:
        operation, desk = self.operation, self.desk
        caller = desk.gate.admit(scope, headers, operation.needs)
        path = scope["path_params"]
        if caller.rankers:
            self._check_rankers(caller, path)
        if not operation.always and not desk.service.ready:
            raise NotReady(
                "kernels are being compiled, or what was learned is being restored; GET /readyz says when that is done"
            )
        call = Call(desk, desk.service, caller, path, headers)
        if operation.query is not None:
            call.query = operation.decoded_query(scope["query_string"])
        if operation.decode is None:
            return await self._answer(call)
        body = await desk.bodies.read(headers, receive)
        if len(body) > desk.settings.heavy:
            return await self._in_turn(call, body)
        call.body = operation.decode(body, call)
        return await self._answer(call)

    async def _in_turn(self, call: Call, body: bytes) -> Reply | Stream:
        """Answer a heavy request: one after the other, those of different callers and rankers in turns."""
        assert self.operation.decode is not None
        async with self.desk.turns.turn((call.path.get("name"), call.caller.id)):
            call.body = await asyncio.to_thread(self.operation.decode, body, call)
            return await self._answer(call)

    async def _answer(self, call: Call) -> Reply | Stream:
        answer = await self.operation.handle(call)
        return answer if isinstance(answer, (Reply, Stream)) else Reply(_encode(answer), self.operation.statuses[0])

    def _check_rankers(self, caller: Caller, path: Mapping[str, str]) -> None:
        if self._about_a_ranker:
            caller.check(path["name"])
        elif self.operation.all_rankers:
            names = ", ".join(sorted(caller.rankers))
            raise WrongScope(f"this shows all rankers, and this API key is for {names} only")


def _refusal(error: Exception, request_id: str) -> Reply:
    problem, headers = explain(error, request_id)
    return Reply(_encode(problem), problem.status, b"application/problem+json", headers)


async def _send(send: Send, reply: Reply, request_id: str, ending: Callable[[], Awaitable[None]] | None = None) -> None:
    """Send a whole answer, with the id of its request; the connection stays open until an ending is done."""
    headers = [
        (b"content-type", reply.media_type),
        (b"content-length", b"%d" % len(reply.body)),
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        *reply.headers,
    ]
    if reply.status == 204:
        del headers[:2]  # there is no content to describe
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if ending is None:
        await send({"type": "http.response.body", "body": reply.body})
        return
    await send({"type": "http.response.body", "body": reply.body, "more_body": True})
    await ending()
    await send({"type": "http.response.body", "body": b""})


async def _send_stream(
    send: Send, receive: Receive, stream: Stream, request_id: str, ended: Callable[[], None]
) -> None:
    """Send chunk after chunk, each when there is room for it, until there are no more or the reader has gone."""
    gone = asyncio.create_task(_hung_up(receive))
    headers = [
        (b"content-type", stream.media_type),
        (b"x-request-id", request_id.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for chunk in stream.chunks:
            if gone.done():
                return
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        ended()


async def _hung_up(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
