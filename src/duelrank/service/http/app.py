"""The service as an ASGI application: admits, reads, decodes, answers, encodes and counts each request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
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
from duelrank.service.http.auth import Caller, Gate, KeyRing
from duelrank.service.http.decoding import array_reader
from duelrank.service.http.errors import (
    BodyTooLarge,
    ClientGone,
    NoSuchPage,
    TooBusy,
    WrongMethod,
    WrongScope,
    explain,
)
from duelrank.service.http.limits import BodyReader, FairSemaphore, WebSettings, discard_body
from duelrank.service.http.metrics import Metrics
from duelrank.service.http.openapi import docs_page, openapi_document
from duelrank.service.http.routes import OPERATIONS, Call, Operation, Reply, Stream
from duelrank.service.service import Service

#: Seconds between two checks whether another process has compiled the reader of requests.
PREPARE_SECONDS = 1.0

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_encode = msgspec.json.Encoder().encode


@dataclass
class AppState:
    """State that all endpoints share."""

    service: Service
    gate: Gate
    settings: WebSettings
    bodies: BodyReader
    heavy: FairSemaphore
    metrics: Metrics
    document: bytes = b"{}"
    page: bytes = b""
    requests: int = 0
    streams: int = 0

    def __post_init__(self) -> None:
        self._ids, self._prefix = count(1), token_hex(4)

    def request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's ``X-Request-ID`` if it is valid, otherwise a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode("ascii")
        return f"{self._prefix}-{next(self._ids):x}"

    def reserve_request(self) -> None:
        """Reserve a request slot; `release_request` must follow."""
        if self.requests >= self.settings.max_requests:
            raise TooBusy(f"{self.requests:,} requests are being answered already")
        self.requests += 1

    def release_request(self) -> None:
        """Release a request slot."""
        self.requests -= 1

    def reserve_stream(self) -> None:
        """Reserve a slot for a live stream; `release_stream` must follow."""
        if self.streams >= self.settings.max_streams:
            raise TooBusy(f"{self.streams:,} live streams are open already")
        self.streams += 1

    def release_stream(self) -> None:
        """Release a slot for a live stream."""
        self.streams -= 1


def create_app(
    service: Service,
    keys: KeyRing,
    settings: WebSettings | None = None,
    operations: Sequence[Operation] = OPERATIONS,
    metrics: Metrics | None = None,
) -> Starlette:
    """Return the application of a service, which starts and stops with it.

    The endpoints are ASGI applications, which Starlette only routes to: msgspec decodes bodies directly into the values that the
    service takes.
    """
    settings = settings or WebSettings()
    service.observer = metrics = metrics or Metrics()
    state = AppState(
        service,
        Gate(keys, settings),
        settings,
        BodyReader(settings.max_body, settings.max_waiting),
        FairSemaphore(settings.heavy_at_once, settings.heavy_waiting),
        metrics,
        _encode(openapi_document(operations, __version__)),
        docs_page("duelrank"),
    )
    app = _Application([Endpoint(one, state) for one in operations])
    app.router.redirect_slashes = False
    app.state.app_state = state
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    state: AppState = app.state.app_state
    await state.service.start()
    tasks = [asyncio.create_task(each) for each in (state.gate.keys.keep_fresh(), _prepare_reader(state.service))]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await state.service.stop()


async def _prepare_reader(service: Service) -> None:
    """Prepare the reader of JSON requests; requests are answered meanwhile.

    Compiling takes seconds, in which nothing else can be compiled: another process does that, unless this one learns.
    """
    while not (service.leads or await asyncio.to_thread(array_reader.may_prepare)):
        await asyncio.sleep(PREPARE_SECONDS)
    await asyncio.to_thread(array_reader.prepare)


class _Application(Starlette):
    """Starlette without its middleware, which turns exceptions into answers: our endpoints do that."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        operations = [(each.operation.method, each.operation.path) for each in endpoints]
        routes = [
            Route(path, each, methods=[method]) for (method, path), each in zip(operations, endpoints, strict=True)
        ]
        super().__init__(routes=routes, lifespan=_lifespan)
        self._endpoints = dict(zip(operations, endpoints, strict=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        endpoint = self._of_ranker(scope) if scope["type"] == "http" else None
        await (super().__call__ if endpoint is None else endpoint)(scope, receive, send)

    def _of_ranker(self, scope: Scope) -> Endpoint | None:
        """Return the endpoint of a path such as /v1/rankers/shop/rank: the most frequent ones do not need the router."""
        parts = scope["path"].split("/")
        if len(parts) != 5 or not parts[3] or scope.get("root_path"):
            return None
        name, parts[3] = parts[3], "{name}"
        endpoint = self._endpoints.get((scope["method"], "/".join(parts)))
        if endpoint is not None:
            scope["path_params"] = {"name": name}
        return endpoint

    def build_middleware_stack(self) -> ASGIApp:
        """Return the router, with our own answer for unknown paths and methods."""

        async def routed(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await self.router(scope, receive, send)
            except HTTPException:
                await _answer_not_routed(self, scope, send)

        return routed


async def _answer_not_routed(app: Starlette, scope: Scope, send: Send) -> None:
    """Answer a request whose path or method is unknown."""
    state: AppState = app.state.app_state
    path, method, allowed = scope["path"][:200], scope["method"], _methods(app, scope)
    refusal: Exception = NoSuchPage(f"there is nothing at {path}; GET /docs lists the paths")
    if allowed:
        refusal = WrongMethod(f"{path} has {allowed}, not {method}", allowed)
    request_id = state.request_id(dict(scope["headers"]))
    reply = _error_reply(refusal, request_id)
    state.metrics.requests("other", "other")(reply.status, 0.0)
    await _send(send, reply, request_id)


def _methods(app: Starlette, scope: Scope) -> str:
    """Return the methods of this path, over all of its operations."""
    found: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, operation: Operation, state: AppState) -> None:
        self.operation, self.state = operation, state
        self._has_ranker = "{name}" in operation.path
        self._count = state.metrics.requests(operation.method, operation.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an exception becomes an error answer."""
        began = perf_counter()
        state = self.state
        headers = dict(scope["headers"])
        request_id, before_closing = state.request_id(headers), None
        try:
            state.reserve_request()
            try:
                reply = await self._reply(scope, headers, receive)
            finally:
                state.release_request()
            if isinstance(reply, Stream):
                state.reserve_stream()
        except ClientGone:
            return
        except BodyTooLarge as error:
            reply, before_closing = _error_reply(error, request_id), partial(discard_body, receive)
        except Exception as error:
            reply = _error_reply(error, request_id)
        if isinstance(reply, Stream):
            self._count(200, perf_counter() - began)
            await _send_stream(send, receive, reply, request_id, state.release_stream)
        else:
            await _send(send, reply, request_id, before_closing)
            self._count(reply.status, perf_counter() - began)

    async def _reply(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> Reply | Stream:
        operation, state = self.operation, self.state
        caller = state.gate.admit(scope, headers, operation.needs)
        path = scope["path_params"]
        if caller.rankers:
            self._check_rankers(caller, path)
        if not operation.before_ready and not state.service.ready:
            raise NotReady(
                "kernels are being compiled, or rankers are being restored; GET /readyz says when that is done"
            )
        call = Call(state, state.service, caller, path, headers)
        if operation.query is not None:
            call.query = operation.decoded_query(scope["query_string"])
        if operation.decode is None:
            return await self._answer(call)
        body = await state.bodies.read(headers, receive)
        if len(body) > state.settings.heavy:
            return await self._answer_heavy(call, body)
        call.body = operation.decode(body, call)
        return await self._answer(call)

    async def _answer_heavy(self, call: Call, body: bytes) -> Reply | Stream:
        """Answer a heavy request: a few at a time, scheduled fairly between callers and rankers."""
        assert self.operation.decode is not None
        async with self.state.heavy.slot((call.path.get("name"), call.caller.id)):
            call.body = await asyncio.to_thread(self.operation.decode, body, call)
            return await self._answer(call)

    async def _answer(self, call: Call) -> Reply | Stream:
        answer = await self.operation.handle(call)
        return answer if isinstance(answer, (Reply, Stream)) else Reply(_encode(answer), self.operation.statuses[0])

    def _check_rankers(self, caller: Caller, path: Mapping[str, str]) -> None:
        if self._has_ranker:
            caller.check(path["name"])
        elif self.operation.all_rankers:
            names = ", ".join(sorted(caller.rankers))
            raise WrongScope(f"this shows all rankers, and this API key is for {names} only")


def _error_reply(error: Exception, request_id: str) -> Reply:
    problem, headers = explain(error, request_id)
    return Reply(_encode(problem), problem.status, b"application/problem+json", headers)


async def _send(
    send: Send, reply: Reply, request_id: str, before_closing: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Send a whole answer, with the id of its request; ``before_closing`` is awaited before the connection may be closed."""
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
    if before_closing is None:
        await send({"type": "http.response.body", "body": reply.body})
        return
    await send({"type": "http.response.body", "body": reply.body, "more_body": True})
    await before_closing()
    await send({"type": "http.response.body", "body": b""})


async def _send_stream(
    send: Send, receive: Receive, stream: Stream, request_id: str, ended: Callable[[], None]
) -> None:
    """Send the chunks of a stream, each when there is room for it, until there are no more or the client disconnects."""
    gone = asyncio.create_task(_disconnected(receive))
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


async def _disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
