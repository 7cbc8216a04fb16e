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
from tests.serving.web.conftest import SHOP

from duelrank.errors import StoreCorrupt
from duelrank.serving.web import KeyRing, create_app
from duelrank.serving.web.protocol import ImpatientProtocol
from duelrank.serving.web.server import listen, run_server


@contextmanager
def running(app, patience):
    """Run a server in a thread; gives its port."""

    class Protocol(ImpatientProtocol):
        pass

    Protocol.patience = patience
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, http=Protocol, log_config=None, access_log=False, lifespan="on"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def port(service, storage):
    with running(create_app(service, KeyRing(storage)), patience=0.4) as port:
        yield port


def test_a_service_that_will_never_be_ready_ends_the_server(service, storage):
    service.trouble = StoreCorrupt("the newest snapshot cannot be read")
    before = signal.getsignal(signal.SIGTERM)
    with listen("127.0.0.1", 0) as listening, pytest.raises(StoreCorrupt, match="newest snapshot"):
        run_server(create_app(service, KeyRing(storage)), service, listening, when_ready=pytest.fail)
    assert service.stopped
    assert signal.getsignal(signal.SIGTERM) is before


def test_quick_ones_do_not_notice(port):
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        client.post("/v1/rankers", json=SHOP)
        for _ in range(3):
            assert client.get("/v1/rankers/shop").status_code == 200
            time.sleep(0.5)  # longer than the patience, but between requests


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
def test_slow_ones_are_dropped(port, begin):
    """Bytes come all the time, but the request is never whole."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        began = time.monotonic()
        connection.sendall(begin)
        with suppress(OSError):  # the other side hung up
            while time.monotonic() < began + 8.0:
                time.sleep(0.05)
                connection.sendall(b"x" if begin else b"\r\n")
        assert 0.3 < time.monotonic() - began < 7.0
