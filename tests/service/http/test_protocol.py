"""Slow clients lose their connection, quick ones do not notice."""

import asyncio
import signal
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn
from tests.service.http.conftest import SHOP
from tests.waiting import FOR_EVER, until

from duelrank.core.errors import StoreCorrupt
from duelrank.service.http import KeyRing, WebSettings, create_app
from duelrank.service.http.server import LimitedProtocol, listen, run_server


@contextmanager
def running(app, patience):
    """Run a server in a thread; gives its port and its connections."""

    class Protocol(LimitedProtocol):
        pass

    Protocol.request_seconds = patience
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, http=Protocol, log_config=None, access_log=False, lifespan="on"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        yield listening.getsockname()[1], server.server_state.connections
    finally:
        server.should_exit = True
        thread.join(FOR_EVER)
        assert not thread.is_alive()


def test_a_service_that_will_never_be_ready_ends_the_server(service, storage):
    service.trouble = StoreCorrupt("the newest snapshot cannot be read")
    before = signal.getsignal(signal.SIGTERM)
    with listen("127.0.0.1", 0) as listening, pytest.raises(StoreCorrupt, match="newest snapshot"):
        run_server(create_app(service, KeyRing(storage)), service, listening, when_ready=pytest.fail)
    assert service.stopped
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("closing", ["close", "keep-alive"])
def test_who_still_sends_reads_that_the_body_is_too_large(service, storage, closing):
    """More than the buffers of both ends hold: a server that hangs up at once makes the system throw its answer away."""
    size = 32 << 20
    head = f"POST /v1/rankers HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: {closing}\r\nContent-Length: {size}\r\n\r\n"
    app = create_app(service, KeyRing(storage), WebSettings(max_body=1000))
    with (
        running(app, patience=1000.0) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection,
    ):
        connection.sendall(head.encode() + b" " * size)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close\r\n" in answer
    assert b"a body may have 1,000 bytes" in answer


def test_quick_ones_do_not_notice(service, storage):
    """Patience ends while a request comes in only: between requests nothing waits for it to end."""
    with (
        running(create_app(service, KeyRing(storage)), patience=1000.0) as (port, connections),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=FOR_EVER) as client,
    ):
        client.post("/v1/rankers", json=SHOP)
        for _ in range(3):
            assert client.get("/v1/rankers/shop").status_code == 200
            assert [connection._timer for connection in connections] == [None]
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall(b"GET /heal")
            until(lambda: any(connection._timer is not None for connection in list(connections)))


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET /heal",
        b"POST /v1/rankers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
        b"POST /v1/rankers HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1000\r\n\r\n",  # refused before its body
    ],
    ids=["nothing", "half a header", "no body", "refused, then a body"],
)
def test_slow_ones_are_dropped(service, storage, begin):
    """Bytes come all the time, but the request is never whole."""
    with running(create_app(service, KeyRing(storage)), patience=0.4) as (port, _):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection:
            connection.sendall(begin)
            until(lambda: is_dropped(connection, b"x" if begin else b"\r\n"))
        assert time.monotonic() - began > 0.3


def is_dropped(connection, more):
    """Send some more; return whether the other side has hung up."""
    try:
        connection.sendall(more)
    except OSError:
        return True
    return False


class TestHeaders:
    """64 KiB of headers in all; more are refused while they come in, and never collected."""

    @pytest.fixture
    def port(self, service, storage):
        with running(create_app(service, KeyRing(storage)), patience=100.0) as (port, _):
            yield port

    @staticmethod
    def answer(connection):
        """Return all that the server says until it hangs up."""
        found = b""
        while more := connection.recv(4096):
            found += more
        return found

    @pytest.mark.parametrize(
        "head",
        [
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"a" * 70_000 + b"\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Many: aaaaaaaaaa\r\n" * 4000 + b"\r\n",
            b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Never-Ends: " + b"a" * 70_000,
        ],
        ids=["a long one", "many", "the address", "not complete"],
    )
    def test_too_large(self, port, head):
        with socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection:
            connection.sendall(head)
            found = self.answer(connection)
        assert found.startswith(b"HTTP/1.1 431 ")
        assert b"/docs#headers-too-large" in found
        assert b"65,536 bytes" in found
        assert found.count(b"HTTP/1.1") == 1

    def test_just_not_too_large(self, port):
        large = {"X-Long": "a" * 60_000}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=FOR_EVER) as client:
            for _ in range(3):  # on one connection: each request counts for itself
                assert client.get("/healthz", headers=large).status_code == 200
            assert client.post("/v1/rankers", content=b" " * 200_000, headers=large).status_code == 400

    @pytest.mark.parametrize(
        "begin",
        [
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ",
            b"POST /v1/rankers HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ",
        ],
        ids=["a header", "a trailer"],
    )
    def test_megabytes_are_not_collected(self, service, storage, begin, monkeypatch):
        monkeypatch.setattr(LimitedProtocol, "discard_seconds", 0.2)
        seen = []

        class Counting(LimitedProtocol):
            def data_received(self, data):
                refused = self._refused
                super().data_received(data)
                seen.append(0 if refused else len(data))

        monkeypatch.setattr("tests.service.http.test_protocol.LimitedProtocol", Counting)
        with (
            running(create_app(service, KeyRing(storage)), patience=100.0) as (port, _),
            socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection,
        ):
            connection.sendall(begin)
            until(lambda: is_dropped(connection, b"a" * 100_000))
        assert sum(seen) < 1_000_000


def test_a_body_that_an_upgrade_hides_is_explained(service, storage):
    """The parser of HTTP does not read it; Java's HttpClient asks for HTTP/2 in this way."""
    head = b"POST /v1/rankers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
    head += b"Connection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    with (
        running(create_app(service, KeyRing(storage)), patience=1000.0) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection,
    ):
        connection.sendall(head + b"{}")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"with an Upgrade header the body is not read" in answer
