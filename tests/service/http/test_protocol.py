"""Slow clients lose their connection, quick ones do not notice."""

import asyncio
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import pytest
import uvicorn
from tests.service.http.conftest import SHOP
from tests.waiting import FOR_EVER, until

from duelrank.core.errors import StoreCorrupt
from duelrank.service.http import KeyRing, WebSettings, create_app
from duelrank.service.http.protocol import HttpProtocol
from duelrank.service.http.server import listen, run_server


@contextmanager
def running(app, patience):
    """Run a server in a thread; gives its port and its connections."""

    class Hurried(HttpProtocol):
        pass

    Hurried.request_seconds = patience
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, http=Hurried, log_config=None, access_log=False, lifespan="on"))
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
    assert answer.count(b"connection: close\r\n") == 1
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
            assert not any(connection.arriving for connection in connections)
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall(b"GET /heal")
            until(lambda: any(connection.arriving for connection in list(connections)))


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
        monkeypatch.setattr(HttpProtocol, "discard_seconds", 0.2)
        seen = []

        class Counting(HttpProtocol):
            def data_received(self, data):
                refused = self._refused
                super().data_received(data)
                seen.append(0 if refused else len(data))

        monkeypatch.setattr("tests.service.http.test_protocol.HttpProtocol", Counting)
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


class TestExchanges:
    """Requests and answers that the service and its clients do not have every day, with an application of the test."""

    @pytest.fixture
    def port(self):
        with running(application, patience=1000.0) as (port, _):
            yield port

    @staticmethod
    def ask(port, *pieces):
        """Send a request in pieces; return all that comes back until the server hangs up."""
        with socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection:
            for piece in pieces:
                connection.sendall(piece)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def test_pipelined_requests_are_answered_in_order(self, port):
        """The first answer takes the longest; a body of megabytes comes in between."""
        large = b"x" * 3_000_000
        requests = [
            b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none",
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(large), large),
            b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nthree",
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nnever",
        ]
        found = self.ask(port, b"".join(requests))
        bodies = [part.partition(b"\r\n\r\n")[2] for part in found.split(b"HTTP/1.1 200 OK\r\n")[1:]]
        assert bodies == [b"one", large, b"three"]
        assert found.count(b"connection: close") == 1

    def test_chunks_of_a_request(self, port):
        head = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        found = self.ask(port, head + b"3\r\nabc\r\n", b"2\r", b"\nde\r\n0\r\n\r\n")
        assert found.endswith(b"\r\n\r\nabcde")

    def test_chunks_of_an_answer(self, port):
        found = self.ask(port, b"GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head, _, body = found.partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert body == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"

    def test_a_head_has_no_body(self, port):
        found = self.ask(port, b"HEAD /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 200 OK\r\n")
        assert found.endswith(b"\r\n\r\n")

    def test_an_older_client_gets_one_answer(self, port):
        found = self.ask(port, b"POST /echo HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        assert b"connection: close" in found
        assert found.endswith(b"\r\n\r\nhi")

    def test_who_waits_is_asked_for_the_body(self, port):
        with socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection:
            connection.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n")
            assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            connection.sendall(b"bo")
            connection.sendall(b"dy")
            assert connection.recv(1000).endswith(b"\r\n\r\nbody")

    @pytest.mark.parametrize("path", [b"/fails", b"/no-answer", b"/splits"])
    def test_an_application_that_fails(self, port, path):
        found = self.ask(port, b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        assert found.startswith(b"HTTP/1.1 500 ")
        assert found.count(b"connection: close") == 1

    @pytest.mark.parametrize("path", [b"/too-long", b"/too-short"])
    def test_an_answer_of_another_length_ends_the_connection(self, port, path):
        found = b""
        with suppress(ConnectionResetError):
            found = self.ask(port, b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        assert found == b""

    @pytest.mark.parametrize(
        "data",
        [b"not http at all\r\n\r\n", b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n"],
        ids=["a request", "a chunk"],
    )
    def test_what_is_not_http(self, port, data):
        found = self.ask(port, data)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert found.count(b"HTTP/1.1") == 1

    def test_what_is_not_http_is_no_answer_to_the_request_before(self, port):
        found = b""
        with suppress(ConnectionResetError):
            found = self.ask(port, b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nonenot http\r\n\r\n")
        assert found == b""

    def test_who_reads_slowly_gets_everything(self, port):
        """The application waits until there is room: much more than the buffers of both ends."""
        with socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            time.sleep(0.2)
            found = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        assert len(found.partition(b"\r\n\r\n")[2]) == 64 << 20

    def test_the_application_learns_that_the_client_is_gone(self, port):
        before = len(GONE)
        with socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as connection:
            connection.sendall(b"GET /waits HTTP/1.1\r\nHost: a\r\n\r\n")
            time.sleep(0.05)
        until(lambda: len(GONE) > before)

    def test_idle_connections_are_closed(self, monkeypatch):
        original = uvicorn.Config.__init__

        def hurried(*arguments, **options):
            original(*arguments, **options, timeout_keep_alive=0.3)

        monkeypatch.setattr(uvicorn.Config, "__init__", hurried)
        with running(application, patience=1000.0) as (port, _):
            found = self.ask(port, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
        assert found.endswith(b"\r\n\r\nhi")
        assert b"connection: close" not in found

    def test_the_end_waits_for_answers(self):
        with (
            running(application, patience=1000.0) as (port, connections),
            socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as idle,
            socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER) as busy,
        ):
            busy.sendall(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none")
            until(lambda: len(connections) == 2)
            time.sleep(0.05)
            for connection in list(connections):
                connection.loop.call_soon_threadsafe(connection.shutdown)
            assert idle.recv(1000) == b""
            found = b"".join(iter(lambda: busy.recv(1000), b""))
        assert found.endswith(b"\r\n\r\none")
        assert b"connection: close" in found


GONE = []


async def application(scope, receive, send):
    """What the tests of exchanges ask."""
    if scope["type"] == "lifespan":
        return
    path, length = scope["path"], None
    if path == "/fails":
        raise RuntimeError("on purpose")
    if path == "/no-answer":
        return
    if path == "/waits":
        await receive()
        GONE.append((await receive())["type"] == "http.disconnect")
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    pieces = [body]
    if path == "/slow":
        await asyncio.sleep(0.2)
    elif path in ("/too-long", "/too-short"):
        length = 2
        pieces = [b"abc" if path == "/too-long" else b"a"]
    elif path == "/stream":
        pieces = [b"one", b"two"]
    elif path == "/splits":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-id", b"1\r\nset-cookie: a=b")]})
    elif path == "/large":
        pieces = [bytes(1 << 20)] * 64
        length = 64 << 20
    headers = [] if path == "/stream" else [(b"content-length", b"%d" % (length or len(body)))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number, piece in enumerate(pieces, 1):
        await send({"type": "http.response.body", "body": piece, "more_body": number < len(pieces)})
