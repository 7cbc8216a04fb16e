"""``duelrank serve`` as a real process on a port of this machine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import webbrowser
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.service.http.conftest import DOCUMENTS, SHOP
from tests.waiting import FOR_EVER, until

from duelrank.cli.serve import open_page
from duelrank.core.errors import StorageFailure
from duelrank.service.http import make_key
from duelrank.service.http import server as workers
from duelrank.storage import open_storage


class Server:
    """A running `duelrank serve`; its words are in ``said``, its log in a file."""

    def __init__(self, *words, env=None, command="serve"):
        command = [sys.executable, "-m", "duelrank", command, "--port", "0", *map(str, words)]
        environment = os.environ | {"COLUMNS": "500", "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
        descriptor, self.log = tempfile.mkstemp(prefix="duelrank-log-")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=descriptor, encoding="utf-8", env=environment | (env or {})
        )
        os.close(descriptor)
        self.said = ""
        while "ready:" not in self.said:
            line = self.process.stdout.readline()
            assert line, self.said + self.logged()
            self.said += line
        self.url = re.search(r"http://127\.0\.0\.1:\d+", self.said)[0]
        self.port = int(self.url.rpartition(":")[2])

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.said += self.process.communicate(timeout=FOR_EVER)[0]
        return self.process.returncode

    def logged(self):
        """What is in its log so far."""
        return Path(self.log).read_text(encoding="utf-8")


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def server(store):
    """A server of this test alone, which may stop it."""
    started = Server("--store", store)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.communicate()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server that tests share whose clients misbehave: whatever they do, it goes on and ends as it should."""
    started = Server("--store", f"sqlite:///{tmp_path_factory.mktemp('shared')}/shop.db", "--max-body", "100000")
    yield started
    assert httpx.get(f"{started.url}/healthz", timeout=FOR_EVER).status_code == 200
    assert started.stop() == 0
    assert "Traceback" not in started.said + started.logged()


def answers(port):
    """Whether somebody takes new connections there."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def refused(cli):
    """Run a command that must fail, and return its words."""

    def run(*words):
        done = cli(*words)
        assert (done.exit_code, done.stdout) == (2, ""), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    return run


@pytest.mark.processes
def test_from_start_to_stop(server, store):
    assert "no API keys: only requests from this machine are accepted" in server.said
    assert f"store: {store}" in server.said
    assert f"{server.url}/docs" in server.said
    assert "ready: 0 rankers" in server.said
    with httpx.Client(base_url=server.url, timeout=FOR_EVER) as client:
        assert client.post("/v1/rankers", json=SHOP).status_code == 201
        body = {"impression_id": "i1", "documents": DOCUMENTS}
        first = client.post("/v1/rankers/shop/rank", json=body)
        assert first.status_code == 200
        counts = client.post("/v1/rankers/shop/feedback", json={"impression_id": "i1", "clicks": ["d3"], "close": True})
        assert counts.json()["accepted"] == 1
        assert client.get("/docs").status_code == 200
        assert server.stop() == 0
    assert "stopped; everything is saved" in server.said
    again = Server("--store", store)
    assert "ready: 1 ranker (shop)" in again.said
    with httpx.Client(base_url=again.url, timeout=FOR_EVER) as client:
        assert client.post("/v1/rankers/shop/rank", json=body).json() == first.json()
        until(lambda: client.get("/v1/rankers/shop").json()["learned"] == 1)
    assert again.stop(signal.SIGINT) == 0
    assert "Traceback" not in server.said + again.said + server.logged() + again.logged()


@pytest.mark.processes
class TestDashboard:
    """``duelrank dashboard``: a store is looked at, while nobody serves from it and while somebody does."""

    @pytest.mark.parametrize("meanwhile", [False, True])
    def test_looking(self, server, store, tmp_path, meanwhile):
        assert f"dashboard: {server.url}/dashboard" in server.said
        httpx.post(f"{server.url}/v1/rankers", json=SHOP, timeout=FOR_EVER)
        if not meanwhile:
            assert server.stop() == 0
        looking = Server(tmp_path / "shop.db", "--no-open", "--ranker", "shop", command="dashboard")
        try:
            assert f"{looking.url}/dashboard/shop" in looking.said
            assert "the store is only read" in looking.said
            until(lambda: httpx.get(f"{looking.url}/v1/rankers/shop", timeout=FOR_EVER).status_code == 200)
            assert "data-read-only" in httpx.get(f"{looking.url}/dashboard/shop", timeout=FOR_EVER).text
            refused = httpx.post(f"{looking.url}/v1/rankers/shop/freeze", timeout=FOR_EVER)
            assert (refused.status_code, refused.json()["type"]) == (403, "/docs#read-only")
        finally:
            assert looking.stop(signal.SIGINT) == 0
        assert "Traceback" not in looking.said + looking.logged()

    def test_keys_of_the_store_are_asked_for_unless_one_says_not(self, server, store, tmp_path, cli):
        server.stop()
        with open_storage(store) as storage:
            storage.keys.add(make_key(["rank"])[1])
        for words, status in (((), 401), (("--without-keys",), 200)):
            looking = Server(tmp_path / "shop.db", "--no-open", *words, command="dashboard")
            assert httpx.get(f"{looking.url}/v1/rankers", timeout=FOR_EVER).status_code == status
            assert looking.stop() == 0

    def test_a_browser_that_returns_when_it_is_closed_holds_up_nothing(self, monkeypatch):
        """The page is served by the thread that says that it is ready: a browser is started in another one."""
        opened, closed = [], threading.Event()
        monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or closed.wait(FOR_EVER))
        monkeypatch.setenv("BROWSER", "some")
        open_page("http://127.0.0.1:8001/dashboard")
        assert not closed.is_set()  # and yet it has returned
        until(lambda: opened == ["http://127.0.0.1:8001/dashboard"])
        closed.set()

    def test_a_store_that_there_is_not(self, tmp_path, refused):
        assert "does not exist" in refused("dashboard", tmp_path / "nothing.db")

    def test_the_network_without_keys(self, server, tmp_path, refused):
        assert "can be reached from other machines" in refused(
            "dashboard", tmp_path / "shop.db", "--host", "0.0.0.0", "--port", 0, "--without-keys"
        )


@pytest.mark.processes
def test_a_webhook_is_announced_without_its_secret(store):
    server = Server("--store", store, "--webhook", "https://us:pw@hooks.example/T0/secret")
    assert server.stop() == 0
    assert "webhook of guards: https://hooks.example/…" in server.said
    assert "secret" not in server.said + server.logged()


@pytest.mark.processes
def test_keys_made_and_revoked_at_the_command_line(server, store, cli):
    with httpx.Client(base_url=server.url, timeout=FOR_EVER) as client:
        assert client.get("/v1/rankers").status_code == 200
        token = cli("keys", "create", "--store", store, "--scope", "rank").stdout.strip()
        until(lambda: client.get("/v1/rankers").status_code == 401)
        assert client.get("/v1/rankers", headers={"X-API-Key": token}).status_code == 200
        assert client.post("/v1/rankers", json=SHOP, headers={"X-API-Key": token}).status_code == 403
        cli("keys", "revoke", token.split("_")[1], "--store", store)
        until(lambda: client.get("/v1/rankers", headers={"X-API-Key": token}).status_code == 401)
    server.stop()
    assert token.split("_", 2)[2] not in server.said + server.logged()


@pytest.mark.processes
def test_it_reports_if_not_everything_is_saved(server, store):
    httpx.post(f"{server.url}/v1/rankers", json=SHOP, timeout=FOR_EVER)
    httpx.post(f"{server.url}/v1/rankers/shop/rank", json={"documents": DOCUMENTS}, timeout=FOR_EVER)
    Path(store.removeprefix("sqlite:///")).unlink()
    assert server.stop() == 2
    assert "everything is saved" not in server.said
    assert "stopped, but not all that was learned is saved" in server.logged()


def test_a_store_in_memory_is_gone(cli, monkeypatch):
    monkeypatch.setattr("duelrank.service.http.process.ServerProcess.run", lambda *given: None)
    assert cli("serve", "--store", "sqlite://").stdout == "stopped; the store was in memory and is gone\n"


@pytest.mark.parametrize(
    ("ready", "status", "saved"),
    [
        (True, 0, True),
        (True, 1, False),
        (True, -signal.SIGKILL, False),
        (False, 1, True),
        (False, -signal.SIGTERM, True),
    ],
)
@pytest.mark.parametrize("learns", [False, True])
def test_a_learner_that_ends_badly_while_all_stop_may_not_have_saved(ready, status, saved, learns, monkeypatch):
    monkeypatch.setattr(workers, "_forget_gauges", lambda process: None)
    monkeypatch.setattr(
        workers.Supervisor, "_start", lambda self, child: vars(child).update(process=ended, was_ready=ready)
    )
    monkeypatch.setattr(workers.Supervisor, "_wait", lambda self, woken: None)
    ended = SimpleNamespace(exitcode=status, pid=1)
    supervisor = workers.Supervisor([workers.Role("one", None, learns=learns)], None, pytest.fail)
    supervisor._stopping = True
    fine = saved or not learns
    with nullcontext() if fine else pytest.raises(StorageFailure, match=f"one ended with status {status}"):
        supervisor.run()


@pytest.mark.processes
def test_a_client_that_vanishes_or_breaks_the_rules(shared):
    half = b"POST /v1/rankers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
    for sent in (half, b"POST", b"\x16\x03\x01\x00", b"GET / HTTP/9\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", shared.port)) as connection:
            connection.sendall(sent)
    assert httpx.get(f"{shared.url}/healthz", timeout=FOR_EVER).status_code == 200


@pytest.mark.processes
def test_a_body_without_a_length_is_cut_off_too(shared):
    def endless():
        while True:
            yield b" " * 10_000

    try:
        answer = httpx.post(f"{shared.url}/v1/rankers", content=endless(), timeout=FOR_EVER)
        assert answer.status_code == 413
    except httpx.WriteError:
        pass  # the server hung up while we were still sending
    assert httpx.get(f"{shared.url}/healthz", timeout=FOR_EVER).status_code == 200


@pytest.mark.processes
def test_waiting_requests_are_answered_before_it_stops(server):
    """A request that is on its way when the signal comes is still answered."""
    httpx.post(f"{server.url}/v1/rankers", json=SHOP, timeout=FOR_EVER)
    content = b'{"documents": [{"id": "a", "features": [1, 2]}]}'
    head = f"POST /v1/rankers/shop/rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 100"), "it waits for the body"
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not answers(server.port))
        connection.sendall(content)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    server.process.communicate(timeout=FOR_EVER)
    assert server.process.returncode == 0


class TestRefusals:
    def test_a_port_that_is_taken(self, store, refused):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            said = refused("serve", "--store", store, "--port", taken.getsockname()[1])
        assert "is in use; choose another with --port" in said

    def test_the_network_without_keys(self, store, refused):
        assert "--insecure" in refused("serve", "--store", store, "--host", "0.0.0.0", "--port", 0)

    @pytest.mark.parametrize(
        "address", ["hooks.example/x", "ftp://host/x", "http://", "https://host:0x/", "http://a b/"]
    )
    def test_a_webhook_that_is_none(self, store, refused, address):
        assert "--webhook must be an http or https address" in refused("serve", "--store", store, "--webhook", address)

    def test_a_webhook_that_is_not_public(self, store, refused):
        said = refused("serve", "--store", store, "--webhook", "http://169.254.169.254/x")
        assert "--allow-private-webhooks" in said

    def test_an_address_that_there_is_not(self, store, refused):
        with open_storage(store) as storage:
            storage.keys.add(make_key(["rank"])[1])
        assert "not an address to listen on" in refused("serve", "--store", store, "--host", "no.such.host.invalid")

    def test_a_store_that_is_none(self, tmp_path, refused):
        (tmp_path / "text.db").write_text("this is no database at all, just some words " * 50)
        assert "text.db" in refused("serve", "--store", f"sqlite:///{tmp_path}/text.db", "--port", 0)
        assert "sqlite:///relative.db" in refused("serve", "--store", "mysql://x", "--port", 0)
        assert "7d" in refused("serve", "--store", "sqlite://", "--retention", "long")


class TestKeys:
    def test_made_listed_revoked(self, cli, cli_json, store):
        made = cli("keys", "create", "--store", store)
        token = made.stdout.strip()
        assert re.fullmatch(r"dr_[0-9a-f]{12}_[\w-]{43}", token)
        assert "only its hash is kept" in made.stderr
        admin = cli_json("keys", "create", "--store", store, "--scope", "admin")
        assert admin["scopes"] == ["admin"]
        listed = cli_json("keys", "list", "--store", store)
        assert [each["scopes"] for each in listed] == [["rank", "feedback"], ["admin"]]
        shown = cli("keys", "list", "--store", store).stdout
        assert admin["id"] in shown
        assert token.split("_", 2)[2] not in shown
        revoked = cli("keys", "revoke", admin["id"], "--store", store)
        assert "1 left" in revoked.stderr
        assert len(cli_json("keys", "list", "--store", store)) == 1

    def test_refused(self, cli, store):
        assert "rank, feedback, admin" in cli("keys", "create", "--store", store, "--scope", "root").stderr
        assert "no API key is called 'abc'" in cli("keys", "revoke", "abc", "--store", store).stderr
        assert "no keys" in cli("keys", "list", "--store", store).stderr


@pytest.mark.processes
class TestTelemetry:
    def test_a_log_in_json_and_words_for_people(self, store):
        server = Server("--store", store, "--log-format", "json", "--access-log")
        httpx.get(f"{server.url}/healthz?a=secret", timeout=FOR_EVER)
        assert server.stop() == 0
        assert "secret" not in server.logged()
        lines = [json.loads(line) for line in server.logged().splitlines()]
        assert any("/healthz" in line["message"] for line in lines)
        assert all(re.match(r"\d{4}-\d\d-\d\dT", line["time"]) for line in lines)
        assert not server.said.startswith("{")

    def test_traces_if_configured(self, store):
        pytest.importorskip("opentelemetry.instrumentation.asgi")
        server = Server("--store", store, env={"OTEL_TRACES_EXPORTER": "console"})
        httpx.get(f"{server.url}/v1/rankers/nobody", timeout=FOR_EVER)
        assert server.stop() == 0
        assert '"name": "GET /v1/rankers/{name}"' in server.said
        assert '"service.name": "duelrank"' in server.said

    def test_another_format_is_refused(self, store, refused):
        assert "text or json" in refused("serve", "--store", store, "--log-format", "xml", "--port", 0)

    def test_another_place_to_learn_is_refused(self, store, refused):
        assert "process or inline" in refused("serve", "--store", store, "--learner", "thread", "--port", 0)
