"""Listening, until told to stop: then what was begun is finished, saved and closed."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import signal
import socket
import sys
from asyncio import TimerHandle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from duelrank.core.errors import InvalidValue, StorageFailure
from duelrank.serving.http.auth import KeyRing
from duelrank.serving.http.errors import HeadersTooLarge, explain
from duelrank.serving.service import Service

__all__ = ["Protocol", "check_exposure", "is_loopback", "listen", "run_server"]

MOST_CONNECTIONS = 10_000
GRACE = 30
"""Seconds that requests get to finish when the server is told to stop."""
SWITCH = 0.0005
"""Seconds after which a thread that computes lets another one go on: the event loop waits so long for each of its turns."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host.lower() == "localhost"


def check_exposure(host: str, keys: KeyRing, insecure: bool) -> None:
    """Refuse to answer the whole network without an API key, unless that is what was asked for in words."""
    if not (is_loopback(host) or keys.in_force or insecure):
        raise InvalidValue(
            f"{host} can be reached from other machines, and without API keys everybody there could use and change the "
            "rankers; make a key first ('duelrank keys create'), or say --insecure where the network itself is safe"
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or say why there is none; port 0 takes any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidValue(f"{host} is not an address to listen on: {error}") from None
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(2048)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidValue(
                f"something else listens on port {port} of {host} already; choose another with --port"
            ) from None
        raise InvalidValue(f"cannot listen on port {port} of {host}: {error.strerror or error}") from None
    return found


def run_server(
    app: ASGIApp, service: Service, listening: socket.socket, when_ready: Callable[[], None], access_log: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM, or until the service turns out never to become ready, which is raised."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=MOST_CONNECTIONS,
    )
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with _own_signals(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(_Server(config, service), service, listening, when_ready))
    finally:
        sys.setswitchinterval(before)


class _Server(uvicorn.Server):
    """A server that says when it has started."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, and say so."""
        try:
            await super().startup(sockets)
        except SystemExit:  # the application could not start
            raise StorageFailure("the service could not start; the log says why") from None
        if self.started:
            self.has_started.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Have live streams end, which would not by themselves, and wait for the other requests."""
        self._service.ending = True
        await super().shutdown(sockets)


async def _serve(server: _Server, service: Service, listening: socket.socket, when_ready: Callable[[], None]) -> None:
    """Serve, and see on the side whether the service becomes ready."""

    async def watch() -> None:
        await server.has_started.wait()
        try:
            await service.wait_ready()
        except BaseException:
            server.should_exit = True
            raise
        gc.freeze()  # what is there now stays: to look through it for garbage again and again would only take time
        when_ready()

    watching = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[listening])
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    if not server.started:
        raise StorageFailure("the service could not start; the log says why")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # such as on Windows
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextmanager
def _own_signals() -> Iterator[None]:
    """While this lasts, uvicorn alone acts on signals: it raises them again at its end, when all is done already."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = {name: signal.signal(name, lambda number, frame: None) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


class Protocol(HttpToolsProtocol):
    """Uvicorn's HTTP protocol with a little less patience.

    It drops a connection whose request takes too long to arrive, or whose answer is not taken: uvicorn has a time limit
    between two requests only, so who sends half a header and then nothing, or a body byte by byte, would hold a connection
    for ever. And it refuses headers that are too large, which uvicorn would collect until they are complete.
    """

    patience: ClassVar[float] = 30.0
    most_header_bytes: ClassVar[int] = 64 << 10
    lingering: ClassVar[float] = 2.0
    """Seconds for which the rest of a refused request is thrown away: a connection that is closed at once loses the answer."""

    _timer: TimerHandle | None = None
    _header_bytes = 0
    _silent_bytes = 0
    _progress = 0
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()
        connection = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and connection is not None and connection.family != socket.AF_UNIX:
            # The system gives up on sent bytes that the other side neither acknowledges nor has room for.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.patience * 1000))

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; bytes that bring neither a body nor the end of anything are headers, which are limited."""
        if self._refused:
            return
        before = self._progress
        super().data_received(data)
        self._silent_bytes = self._silent_bytes + len(data) if self._progress == before else 0
        if self._silent_bytes > self.most_header_bytes:
            self._refuse()

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a request."""
        self._wait()
        self._header_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        self._count(len(name) + len(value) + 4)  # as they were sent: with a colon, a space and the end of the line
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on to the body."""
        self._progress += 1
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._progress += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait no longer: the request is whole."""
        self._progress += 1
        self._rest()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or too much of it."""
        if self._header_bytes > self.most_header_bytes:
            self._refuse()
        elif not self._refused:
            super().send_400_response(msg)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self.most_header_bytes:
            raise HeadersTooLarge  # ends the parser, which has `send_400_response` called

    def _refuse(self) -> None:
        """Say that the headers are too large, where no other answer is on its way, and hang up in a moment."""
        if self._refused:
            return
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()
            return
        error = HeadersTooLarge(f"the headers may have {self.most_header_bytes:,} bytes in all")
        problem, _ = explain(error, "")
        body = msgspec.json.encode(problem)
        head = b"content-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[problem.status] + head + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._rest()
        self._timer = self.loop.call_later(self.lingering, self._give_up)

    def _wait(self) -> None:
        self._rest()
        self._timer = self.loop.call_later(self.patience, self._give_up)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()
