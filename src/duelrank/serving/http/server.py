"""Listening, until told to stop: then what was begun is finished, saved and closed."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from duelrank.errors import InvalidValue, StorageFailure
from duelrank.serving.http.keys import KeyRing
from duelrank.serving.http.protocol import ImpatientProtocol
from duelrank.serving.service import Service

__all__ = ["check_exposure", "is_loopback", "listen", "run_server"]

MOST_CONNECTIONS = 10_000
GRACE = 30
"""Seconds that requests get to finish when the server is told to stop."""


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
        raise InvalidValue(f"{host} is no address to listen on: {error}") from None
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
    app: FastAPI, service: Service, listening: socket.socket, when_ready: Callable[[], None], access_log: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM, or until the service turns out never to become ready, which is raised."""
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
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
    with _own_signals(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(uvicorn.Server(config), service, listening, when_ready))


async def _serve(
    server: uvicorn.Server, service: Service, listening: socket.socket, when_ready: Callable[[], None]
) -> None:
    """Serve, and see on the side whether the service becomes ready."""

    async def watch() -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            await service.wait_ready()
        except BaseException:
            server.should_exit = True
            raise
        gc.freeze()  # what is there now stays: to look through it for garbage again and again would only take time
        when_ready()

    watching = asyncio.create_task(watch())
    await server.serve(sockets=[listening])
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
