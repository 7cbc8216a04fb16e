"""Runs the server, in one process or in several, until it is stopped by a signal."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

import uvicorn
from starlette.types import ASGIApp

from duelrank.core.errors import InvalidValue, StorageFailure
from duelrank.service.http.auth import KeyRing
from duelrank.service.http.metrics import SHARED
from duelrank.service.http.protocol import HttpProtocol

if TYPE_CHECKING:
    from duelrank.service.service import Service

#: The exit status of a process that cannot work, such as on a damaged store; it is not restarted.
FATAL = 2
#: Seconds until a process is restarted: at first and at most; doubled each time that it ends before it is ready.
RESTART_PAUSES = (0.2, 30.0)

MAX_CONNECTIONS = 10_000
#: Seconds after a signal in which others do not count.
SIGNAL_SECONDS = 1.0
#: Seconds for which requests may continue when the server is stopped.
GRACE = 30
#: Seconds after which a computing thread releases the GIL: the event loop waits for this time.
SWITCH = 0.0005
#: New objects until the garbage collector examines them: most of those of a request are gone by then.
GARBAGE = 20_000

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host.lower() == "localhost"


def check_exposure(host: str, keys: KeyRing, insecure: bool) -> None:
    """Raise if other machines can reach the server without an API key, unless that is wanted explicitly."""
    if not (is_loopback(host) or keys.in_force or insecure):
        raise InvalidValue(
            f"{host} can be reached from other machines, and without API keys everybody there could use and change the "
            "rankers; create a key first ('duelrank keys create'), or use --insecure if the network is safe"
        )


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free one. Raise if it cannot listen."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidValue(f"{host} is not an address to listen on: {error}") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidValue(f"port {port} of {host} is in use; choose another with --port") from None
        raise InvalidValue(f"cannot listen on port {port} of {host}: {error.strerror or error}") from None
    return listening


def run_server(
    app: ASGIApp, service: Service, listening: socket.socket, when_ready: Callable[[], None], access_log: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM; raise if the service cannot become ready."""
    config = uvicorn.Config(
        app,
        http=HttpProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=access_log,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=MAX_CONNECTIONS,
    )
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with _ignored_signals(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(_Server(config, service), service, listening, when_ready))
    finally:
        sys.setswitchinterval(before)


class _Server(uvicorn.Server):
    """A server with an event that is set when it has started."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self.has_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and listen."""
        try:
            await super().startup(sockets)
        except SystemExit:  # the application could not start
            raise StorageFailure("the service could not start; the log says why") from None
        if self.started:
            self.has_started.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End live streams, which have no end of their own, and wait for the other requests."""
        self._service.ending = True
        await super().shutdown(sockets)


async def _serve(server: _Server, service: Service, listening: socket.socket, when_ready: Callable[[], None]) -> None:
    """Serve, and wait in parallel until the service is ready."""

    async def watch() -> None:
        await server.has_started.wait()
        try:
            await service.wait_ready()
        except BaseException:
            server.should_exit = True
            raise
        gc.freeze()  # objects that exist now are permanent, and need not be examined by the garbage collector
        gc.set_threshold(GARBAGE)
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
def _ignored_signals() -> Iterator[None]:
    """Ignore the signals that uvicorn raises again when it has stopped."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = {name: signal.signal(name, lambda number, frame: None) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


# Several processes


#: The function of a process, which must be picklable: works until SIGTERM; sends the rankers' names when it is ready.
Work: TypeAlias = Callable[[Connection], None]


@dataclass(frozen=True)
class Role:
    """A process of a server: its name in the log, its function, whether it answers requests, and whether it may be the leader."""

    name: str
    work: Work
    serves: bool = True
    learns: bool = True


@dataclass
class _Child:
    role: Role
    process: BaseProcess | None = None
    ready: Connection | None = None
    was_ready: bool = False  # before that there is nothing to save
    pause: float = RESTART_PAUSES[0]
    due: float | None = None  # when to restart it, by the monotonic clock
    asked: bool = False  # to stop


class Supervisor:
    """Runs several processes, and restarts those that end, until SIGINT or SIGTERM; a second signal kills them.

    Parameters
    ----------
    roles
        The processes. Those that do not serve are stopped after the others, so that they learn from the last requests, too.
    listening
        Socket from which the processes that serve accept connections.
    when_ready
        Called once, with the names of the rankers, when the first process that serves is ready.
    """

    def __init__(
        self, roles: Sequence[Role], listening: socket.socket, when_ready: Callable[[list[str]], None]
    ) -> None:
        self._listening, self._when_ready = listening, when_ready
        self._children = [_Child(role) for role in roles]
        self._context = multiprocessing.get_context("spawn")
        self._stopping = False
        self._failed = False
        self._unsaved: list[str] = []
        self._announced = False

    def run(self) -> None:
        """Start and supervise the processes; returns when all have ended."""
        with caught_signals() as (woken, signals), _shared_metrics():
            for child in self._children:
                self._start(child)
            while self._alive() or not self._stopping:
                self._wait(woken)
                if signals and not self._stopping:
                    self._stop(f"signal {signal.Signals(signals[0]).name}")
                for child in self._children:
                    self._supervise(child)
                if self._stopping:
                    self._end_children(kill=len(signals) > 1)
        if self._failed:
            raise StorageFailure("a process cannot continue; the log has the reason")
        if self._unsaved:
            raise StorageFailure(
                f"stopped, but {' and '.join(self._unsaved)}: the newest checkpoints may not be saved; the next start learns the "
                "rest again from the event log"
            )

    def _alive(self) -> list[_Child]:
        return [child for child in self._children if child.process is not None]

    def _start(self, child: _Child) -> None:
        receiving, sending = self._context.Pipe(duplex=False)
        process = self._context.Process(target=child.role.work, args=(sending,), name=child.role.name)
        process.start()
        sending.close()
        child.process, child.ready, child.due, child.was_ready = process, receiving, None, False
        log.info("%s: process %s", child.role.name, process.pid)

    def _wait(self, woken: socket.socket) -> None:
        """Wait until a process is ready or ends, a signal arrives, or a process has to be restarted."""
        events: list[Any] = [woken]
        events += [child.process.sentinel for child in self._children if child.process is not None]
        events += [child.ready for child in self._alive() if child.ready is not None]
        due = [child.due for child in self._children if child.due is not None and not self._stopping]
        wait(events, max(0.0, min(due) - time.monotonic()) if due else None)
        with suppress(BlockingIOError):
            woken.recv(4096)

    def _supervise(self, child: _Child) -> None:
        self._read_ready(child)
        if child.process is not None and child.process.exitcode is not None:
            self._ended(child, child.process.exitcode)
        if child.due is not None and time.monotonic() >= child.due and not self._stopping:
            self._start(child)

    def _read_ready(self, child: _Child) -> None:
        """Read whether a process is ready; announce the first one that serves."""
        if child.ready is None or not child.ready.poll():
            return
        with suppress(EOFError):
            names: list[str] = child.ready.recv()
            child.was_ready = True
            log.info("%s is ready", child.role.name)
            if not self._announced and child.role.serves:
                self._announced = True
                self._when_ready(names)
        child.ready.close()
        child.ready = None

    def _ended(self, child: _Child, status: int) -> None:
        process, child.process = child.process, None
        assert process is not None
        _forget_gauges(process.pid)
        name = child.role.name
        if self._stopping:
            if child.role.learns and child.was_ready and status != 0:
                self._unsaved.append(f"{name} ended with status {status}")
            return
        if status == FATAL:
            self._failed = True
            self._stop(f"{name} cannot continue")
            return
        pause = RESTART_PAUSES[0] if child.was_ready else child.pause
        child.due, child.pause = time.monotonic() + pause, min(2.0 * pause, RESTART_PAUSES[1])
        log.error("%s (process %s) ended with status %d; it is restarted in %g s", name, process.pid, status, pause)

    def _stop(self, why: str) -> None:
        """Begin to stop; a learner that is not running cannot save what is in the log."""
        self._stopping = True
        log.info("stopping: %s", why)
        self._listening.close()  # so that new connections are refused, not left waiting
        stopped = [child.role.name for child in self._children if child.role.learns and child.due is not None]
        self._unsaved += [f"{name} was not running" for name in stopped if not self._failed]

    def _end_children(self, kill: bool) -> None:
        """Terminate the processes that serve, which finish their requests, then those that only learn; or kill them all."""
        serving = [child for child in self._alive() if child.role.serves]
        for child in self._alive() if kill else serving or self._alive():
            assert child.process is not None
            if kill:
                child.process.kill()
            elif not child.asked:
                child.process.terminate()
            child.asked = True


def end_with_supervisor() -> None:
    """Stop this process, as SIGTERM does, when the supervisor that has started it ends, even if that was killed."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None

    def watch() -> None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="duelrank-supervisor", daemon=True).start()


@contextmanager
def caught_signals() -> Iterator[tuple[socket.socket, list[int]]]:
    """Yield a socket that becomes readable on SIGINT or SIGTERM, and the list of received signals.

    Signals that arrive together count as one: a terminal, or ``timeout``, may send the same signal to a process and to its group.
    """
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    received: list[int] = []
    due = 0.0

    def receive(number: int, frame: object) -> None:
        nonlocal due
        if time.monotonic() >= due:
            received.append(number)
            due = time.monotonic() + SIGNAL_SECONDS

    names = (signal.SIGINT, signal.SIGTERM)
    handlers = {name: signal.signal(name, receive) for name in names}
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield reading, received
    finally:
        signal.set_wakeup_fd(before)
        for name, handler in handlers.items():
            signal.signal(name, handler)
        reading.close()
        writing.close()


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Let the processes keep their metrics in one folder, so that each of them can return those of all."""
    with tempfile.TemporaryDirectory(prefix="duelrank-metrics-") as folder:
        before = os.environ.get(SHARED)
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            os.environ.pop(SHARED)
            if before is not None:
                os.environ[SHARED] = before


def _forget_gauges(process: int | None) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process, os.environ[SHARED])  # type: ignore[no-untyped-call]
