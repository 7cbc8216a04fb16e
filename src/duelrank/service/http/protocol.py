"""HTTP/1.1 on one connection: parses requests, runs the application for each, writes its answers; with limits of time and size."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import MutableMapping
from http import HTTPStatus
from math import inf
from typing import Any, ClassVar, cast
from urllib.parse import unquote

import httptools
import msgspec
from starlette.types import ASGIApp, Message, Scope
from uvicorn import Config
from uvicorn.server import ServerState

from duelrank.service.http.errors import HeadersTooLarge, explain

#: Bytes of a body that are held until the application takes them; then the client has to wait.
MAX_HELD = 64 << 10

_STATUS_LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
_NO_CONTENT = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

log = logging.getLogger(__name__)
access_log = logging.getLogger("uvicorn.access")


class HttpProtocol(asyncio.Protocol):
    """A connection; uvicorn makes one for each client, and asks it to end.

    It limits what a client can hold, which uvicorn's own protocols do not: it closes a connection whose request takes too long to
    arrive, or whose answer is not read, and refuses headers that are too large. It also takes less time: an answer is one write,
    and a connection has one timer.

    Parameters
    ----------
    config, server_state, app_state, _loop
        What uvicorn gives to each protocol.
    """

    #: Seconds until a request must be complete.
    request_seconds: ClassVar[float] = 30.0
    max_header_bytes: ClassVar[int] = 64 << 10
    #: Seconds for which the rest of a refused request is discarded: if the connection is closed at once, the answer is lost.
    discard_seconds: ClassVar[float] = 2.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self.app: ASGIApp = cast(ASGIApp, config.loaded_app)
        self.server, self.loop = server_state, _loop or asyncio.get_running_loop()
        self.logs_requests = config.access_log and access_log.hasHandlers()
        self._max_tasks, self._keep_alive = config.limit_concurrency or inf, float(config.timeout_keep_alive)
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": config.asgi_version, "spec_version": "2.3"},
            "scheme": "https" if config.is_ssl else "http",
            "root_path": config.root_path,
        }
        self._app_state = app_state
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # what follows the last request is ignored
        self._arriving: _Exchange | None = None  # its body is not complete
        self._exchanges: deque[_Exchange] = deque()  # the first one is being answered
        self._begun = self._refused = self._ending = self._reading_paused = False
        self._header_bytes = self._silent_bytes = self._progress = 0
        self._deadline, self._timer = inf, cast(asyncio.TimerHandle, None)
        self._writable: asyncio.Future[None] | None = None

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the first request."""
        self.transport = cast(asyncio.Transport, transport)
        self.server.connections.add(cast(Any, self))
        self._scope["client"], self._scope["server"] = (
            _address(transport.get_extra_info(name)) for name in ("peername", "sockname")
        )
        self._begun = True
        self._deadline = self.loop.time() + self.request_seconds
        self._check_deadline()
        connection = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and connection is not None and connection.family != socket.AF_UNIX:
            # The system closes the connection if sent bytes are not acknowledged in this time.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.request_seconds * 1000))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application."""
        self.server.connections.discard(cast(Any, self))
        self._timer.cancel()
        for exchange in self._exchanges:
            exchange.disconnect()
        self.resume_writing()

    def shutdown(self) -> None:
        """Close the connection when all requests that have arrived are answered."""
        self._ending = True
        if not self._exchanges:
            self.transport.close()

    @property
    def arriving(self) -> bool:
        """Whether a request has begun, and is not complete: it has a time limit."""
        return self._begun

    def _check_deadline(self) -> None:
        """Act if the time is up; otherwise look again at the earliest time at which it can be.

        A timer for each request would take longer than all of its parsing.
        """
        now = self.loop.time()
        if now < self._deadline:
            period = min(self.request_seconds, self._keep_alive)
            self._timer = self.loop.call_at(min(self._deadline, now + period), self._check_deadline)
        elif self._begun or self._refused:
            self.transport.abort()
        else:
            self.transport.close()

    # Writing

    def pause_writing(self) -> None:
        """Note that the client does not read as fast as answers are written."""
        if self._writable is None:
            self._writable = self.loop.create_future()

    def resume_writing(self) -> None:
        """Continue."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        if self._writable is not None:
            await asyncio.shield(self._writable)

    # Reading; the methods with "on" are called by the parser

    def data_received(self, data: bytes) -> None:
        """Parse data; bytes that belong neither to a body nor to the end of a message are headers, which are limited."""
        if self._refused:
            return
        before = self._progress
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the application answers without
        except httptools.HttpParserError:
            self._refuse(too_large=self._header_bytes > self.max_header_bytes)
            return
        self._silent_bytes = self._silent_bytes + len(data) if self._progress == before else 0
        if self._silent_bytes > self.max_header_bytes:
            self._refuse(too_large=True)

    def on_message_begin(self) -> None:
        """Start the time limit of a request."""
        if not self._begun:
            self._begun = True
            self._deadline = self.loop.time() + self.request_seconds
        self._url, self._headers = b"", list[tuple[bytes, bytes]]()
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Add a piece of the address."""
        self._count_header(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._count_header(len(name) + len(value) + 4)  # with a colon, a space and the end of the line
        self._headers.append((name.lower(), value))

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self.max_header_bytes:
            raise HeadersTooLarge  # stops the parser

    def on_headers_complete(self) -> None:
        """Begin to answer, unless earlier requests are waiting for their answers."""
        self._progress += 1
        url, parser = httptools.parse_url(self._url), self._parser
        path, version = url.path.decode("ascii"), parser.get_http_version()
        scope = {
            **self._scope,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self._headers,
            "state": self._app_state.copy(),
        }
        self._arriving = exchange = _Exchange(self, scope, version != "1.0" and parser.should_keep_alive())
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self._start(exchange)
        else:
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand a piece of the body over."""
        self._progress += 1
        if self._arriving is not None and self._arriving.add(body) > MAX_HELD:
            self._pause_reading()

    def on_message_complete(self) -> None:
        """Hand the end of the body over; there is no time limit any more."""
        self._progress += 1
        self._begun, self._deadline = False, inf
        if self._arriving is not None:
            self._arriving.end_body()
            self._arriving = None
        if not self._exchanges:  # it was answered before it was complete
            self._deadline = self.loop.time() + self._keep_alive

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Let more data come, unless requests are waiting for their answers."""
        if self._reading_paused and len(self._exchanges) < 2:
            self._reading_paused = False
            self.transport.resume_reading()

    def _refuse(self, too_large: bool) -> None:
        """Answer data that is not HTTP, or headers that are too large, and close the connection soon."""
        self._refused = True
        first = self._exchanges[0] if self._exchanges else None
        if first is not None:
            first.disconnect()  # it sends nothing any more
            if first is not self._arriving or first.started:  # the refusal would be taken for its answer
                self.transport.abort()
                return
        status, kind, body = 400, b"text/plain; charset=utf-8", b"Invalid HTTP request received."
        if too_large:
            error = HeadersTooLarge(f"the headers may have {self.max_header_bytes:,} bytes in total")
            problem, _ = explain(error, "")
            status, kind, body = problem.status, b"application/problem+json", msgspec.json.encode(problem)
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (kind, len(body))
        self.transport.write(_STATUS_LINES[status] + head + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer.cancel()
        self._timer = self.loop.call_later(self.discard_seconds, self.transport.abort)

    # Requests

    def _start(self, exchange: _Exchange) -> None:
        tasks = self.server.tasks
        full = len(tasks) >= self._max_tasks or len(self.server.connections) >= self._max_tasks
        task = self.loop.create_task(exchange.run(_unavailable if full else self.app))
        tasks.add(task)
        exchange.task = task

    def keeps_alive(self, exchange: _Exchange) -> bool:
        """Whether the connection stays open after the answer."""
        return exchange.keep_alive and not (self._ending and len(self._exchanges) < 2)

    def answered(self, exchange: _Exchange) -> None:
        """Continue with the next request, or wait for one."""
        self.server.total_requests += 1
        if not self.keeps_alive(exchange):
            self._refused = True  # nothing is read any more
            self.transport.close()
            return
        self._exchanges.popleft()
        if self._arriving is exchange:
            self._arriving = None  # the rest of its body is discarded
        self.resume_reading()
        if self._exchanges:
            self._start(self._exchanges[0])
        elif not self._begun:
            self._deadline = self.loop.time() + self._keep_alive


class _Exchange:
    """A request and its answer, as an ASGI application sees them."""

    __slots__ = (
        "_asked_for",
        "_body",
        "_chunked",
        "_complete",
        "_disconnected",
        "_head",
        "_held",
        "_left",
        "_more",
        "_protocol",
        "_read",
        "_scope",
        "_waiter",
        "keep_alive",
        "started",
        "task",
    )

    task: asyncio.Task[None]

    def __init__(self, protocol: HttpProtocol, scope: MutableMapping[str, Any], keep_alive: bool) -> None:
        self._protocol, self._scope, self.keep_alive = protocol, scope, keep_alive
        self._body: list[bytes] = []
        self._held = 0
        self._more, self._read = True, False  # whether the body is not complete; whether the application has all of it
        self.started = self._complete = self._disconnected = self._chunked = self._asked_for = False
        self._left, self._head = (
            0,
            b"",
        )  # bytes of the answer that are missing; its head, which is sent with the first of them
        self._waiter: asyncio.Future[None] | None = None

    async def run(self, app: ASGIApp) -> None:
        """Run the application; if it fails, answer for it."""
        try:
            await app(self._scope, self.receive, self.send)
            if not (self._complete or self._disconnected):
                raise RuntimeError("the application ended without a complete answer")
        except BaseException as error:
            log.error("the application failed", exc_info=error)
            if self.started:
                self._protocol.transport.abort()
            else:
                await _answer_plainly(self.send, 500)
            if not isinstance(error, Exception):
                raise
        finally:
            self._protocol.server.tasks.discard(self.task)

    # Called by the protocol

    def add(self, body: bytes) -> int:
        """Add a piece of the body; return the number of bytes that wait for the application."""
        if not self._complete:
            self._body.append(body)
            self._held += len(body)
            self._wake()
        return self._held

    def end_body(self) -> None:
        """Note that the body is complete."""
        self._more = False
        self._wake()

    def disconnect(self) -> None:
        """Note that the client is gone."""
        self._disconnected = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Called by the application

    async def receive(self) -> Message:
        """Return the next piece of the body; after the last one, wait until the exchange is over."""
        if self._more and not (self._body or self._asked_for or self.started):
            self._ask_for_body()
        while not (self._disconnected or self._complete):
            if self._body or not (self._more or self._read):
                body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body, self._held, self._read = [], 0, not self._more
                return {"type": "http.request", "body": body, "more_body": self._more}
            self._protocol.resume_reading()
            self._waiter = self._protocol.loop.create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    def _ask_for_body(self) -> None:
        """Let a client send the body that waits for this."""
        self._asked_for = True
        if any(name == b"expect" and value.lower() == b"100-continue" for name, value in self._scope["headers"]):
            self._protocol.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send(self, message: Message) -> None:
        """Write a part of the answer."""
        await self._protocol.drain()
        if self._disconnected:
            return
        if not self.started:
            self._send_head(message["status"], message.get("headers", ()))
        elif self._complete:
            raise RuntimeError("the answer is complete already")
        else:
            self._send_body(message.get("body", b""), message.get("more_body", False))

    def _send_head(self, status: int, headers: Any) -> None:
        parts, length = [_STATUS_LINES[status]], None
        for name, value in (*self._protocol.server.default_headers, *headers):
            if b"\n" in value or b"\r" in value:
                raise RuntimeError("a header of the answer has a line break")
            if (name, value) == (b"connection", b"close"):
                self.keep_alive = False  # which is said below
                continue
            if name == b"content-length":
                length = int(value)
            parts += (name, b": ", value, b"\r\n")
        if self._scope["method"] == "HEAD" or status in _NO_CONTENT:
            length = 0
        self.started, self._left, self._chunked = True, length or 0, length is None
        if length is None:
            parts.append(b"transfer-encoding: chunked\r\n")
        if not self._protocol.keeps_alive(self):
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)
        if self._chunked:  # the first piece may be long in coming
            self._write(b"")
        if self._protocol.logs_requests:
            self._log(status)

    def _send_body(self, body: bytes, more: bool) -> None:
        if self._scope["method"] == "HEAD":
            body = b""
        elif self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        else:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the answer has another length than its Content-Length")
        self._write(body)
        if not more:
            self._complete = True
            self._wake()
            self._protocol.answered(self)

    def _write(self, body: bytes) -> None:
        data, self._head = self._head + body, b""
        self._protocol.transport.write(data)

    def _log(self, status: int) -> None:
        scope = self._scope
        client = ":".join(map(str, scope["client"] or ()))
        path = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        parts = (client, scope["method"], path.decode("latin-1"), scope["http_version"], status)
        access_log.info('%s - "%s %s HTTP/%s" %d', *parts)


def _address(found: Any) -> tuple[str, int] | None:
    """Return the address of one end of a connection; None if it is not a pair of host and port."""
    return (str(found[0]), int(found[1])) if isinstance(found, (tuple, list)) else None


async def _unavailable(scope: Scope, receive: Any, send: Any) -> None:
    """Answer that there are too many connections."""
    await _answer_plainly(send, 503)


async def _answer_plainly(send: Any, status: HTTPStatus | int) -> None:
    body = HTTPStatus(status).phrase.encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
