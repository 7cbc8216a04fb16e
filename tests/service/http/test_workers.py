"""Several processes on one store: one dies and comes back, all stop together, none outlives the supervisor."""

import os
import re
import signal
import socket
from contextlib import contextmanager, suppress
from time import sleep

import httpx
import pytest
from tests.service.http.conftest import DOCUMENTS, SHOP
from tests.service.http.test_serve import Server
from tests.waiting import FOR_EVER, until

from duelrank.service import Settings
from duelrank.service.http import WebSettings
from duelrank.service.http.process import ServerProcess
from duelrank.service.http.server import SIGNAL_SECONDS
from duelrank.service.replay import replay
from duelrank.storage import open_storage

pytestmark = pytest.mark.processes


@contextmanager
def started(*words):
    """A server of several processes, all of which are gone afterwards."""
    server = Server(*words)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()  # the others end by themselves, but not one that hangs
            for process in processes(server, "learner"):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        server.process.communicate()


@pytest.fixture
def server(postgres_url):
    with started("--store", postgres_url, "--workers", 2) as server:
        yield server


@pytest.fixture
def apart(sqlite_url):
    """A server on SQLite, with a process that serves and one that learns, and a ranker."""
    with started("--store", sqlite_url) as server:
        until(lambda: server.logged().count("is ready") == 2, server.logged)
        assert httpx.post(f"{server.url}/v1/rankers", json=SHOP, timeout=FOR_EVER).status_code == 201
        yield server


def processes(server, name="worker \\d"):
    """The processes of the workers, or of another role, in the order in which they were started."""
    return [int(found) for found in re.findall(rf"{name}: process (\d+)", server.logged())]


def ready_workers(server):
    """How many workers were ready, including those that have ended."""
    return len(re.findall(r"worker \d is ready", server.logged()))


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def is_ranked(server, number):
    """Rank over a new connection, so that any worker may get it; one that still restores its rankers answers 503."""
    body = {"impression_id": f"i{number}", "documents": DOCUMENTS}
    answer = httpx.post(f"{server.url}/v1/rankers/shop/rank", json=body, timeout=FOR_EVER)
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200


def visit(server, numbers):
    """Rank and click; a request is repeated while no process serves."""
    with httpx.Client(base_url=f"{server.url}/v1/rankers/shop", timeout=FOR_EVER) as client:
        for number in numbers:
            until(lambda number=number: has_clicked(client, number))


def has_clicked(client, number):
    with suppress(httpx.TransportError):
        ranked = client.post("rank", json={"impression_id": f"i{number}", "documents": DOCUMENTS})
        event = {"impression_id": f"i{number}", "event_id": f"e{number}", "clicks": ["d3"], "close": True}
        answers = (ranked, client.post("feedback", json=event))
        return all(each.is_success for each in answers)


def learned(server):
    with suppress(httpx.TransportError, KeyError):
        return httpx.get(f"{server.url}/v1/rankers/shop", timeout=FOR_EVER).json()["learned"]


def test_learning_has_a_process_of_its_own_and_goes_on_after_the_death_of_either(apart, sqlite_url):
    (serving,), (learning,) = processes(apart), processes(apart, "learner")
    visit(apart, range(10))
    until(lambda: learned(apart) == 10)
    os.kill(learning, signal.SIGKILL)
    visit(apart, range(10, 20))  # nobody needs the learner for that
    until(lambda: f"learner (process {learning}) ended with status -9" in apart.logged())
    os.kill(serving, signal.SIGKILL)
    visit(apart, range(20, 30))
    until(lambda: learned(apart) == 30)
    until(lambda: httpx.get(f"{apart.url}/readyz").json() == {"status": "ready", "learning": True})
    metrics = httpx.get(f"{apart.url}/metrics").text
    assert "\nduelrank_leading 1.0" in metrics
    assert apart.stop() == 0
    assert "stopped; everything is saved" in apart.said
    assert "Traceback" not in apart.logged()
    with open_storage(sqlite_url) as storage:
        result = replay(storage, "shop")
    assert (result.learned, result.difference) == (30, None)


def test_requests_are_answered_while_the_learner_hangs_and_a_second_signal_ends_it(apart):
    (learning,) = processes(apart, "learner")
    os.kill(learning, signal.SIGSTOP)
    visit(apart, range(5))
    until(lambda: httpx.get(f"{apart.url}/readyz").json() == {"status": "ready", "learning": False})
    apart.process.send_signal(signal.SIGTERM)
    until(lambda: not any(map(is_alive, processes(apart))))
    sleep(SIGNAL_SECONDS)  # sooner, the next one would count as the same
    assert apart.stop() == 2
    assert "learner ended with status -9" in apart.logged()
    assert "everything is saved" not in apart.said


def test_signals_that_come_together_are_one(apart):
    visit(apart, range(5))
    for _ in range(3):
        apart.process.send_signal(signal.SIGINT)
    assert apart.stop() == 0
    assert "everything is saved" in apart.said


def test_no_process_outlives_the_supervisor_and_the_next_one_goes_on(apart, sqlite_url):
    visit(apart, range(5))
    os.kill(apart.process.pid, signal.SIGKILL)
    with started("--store", sqlite_url) as again:
        until(lambda: not any(map(is_alive, (*processes(apart), *processes(apart, "learner")))))
        assert "ready: 1 ranker (shop)" in again.said
        until(lambda: learned(again) == 5)
        assert again.stop() == 0


@pytest.mark.parametrize("learner", ["process", "inline"])
def test_a_second_server_on_the_same_file_is_refused(apart, cli, sqlite_url, learner, monkeypatch):
    monkeypatch.setattr("duelrank.service.http.process.ENDING_SECONDS", 0.1)
    done = cli("serve", "--store", sqlite_url, "--port", 0, "--learner", learner)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "another process serves from this store" in done.stderr


def test_a_worker_that_dies_is_restarted_and_all_stop(server):
    assert server.said.count("listens on") == server.said.count("ready:") == 1
    until(lambda: ready_workers(server) == 2, server.logged)
    first, second = processes(server)
    with httpx.Client(base_url=server.url, timeout=FOR_EVER) as client:
        assert client.post("/v1/rankers", json=SHOP).status_code == 201
    os.kill(first, signal.SIGKILL)
    until(lambda: f"worker 1 (process {first}) ended with status -9" in server.logged())
    for number in range(20):
        until(lambda number=number: is_ranked(server, number))
    until(lambda: ready_workers(server) == 3, server.logged)
    third = processes(server)[-1]
    until(lambda: 'duelrank_rank_requests_total{ranker="shop"} 20.0' in httpx.get(f"{server.url}/metrics").text)
    until(lambda: "\nduelrank_leading 1.0" in httpx.get(f"{server.url}/metrics").text)
    assert server.stop() == 0
    assert "stopped; everything is saved" in server.said
    assert not any(map(is_alive, (first, second, third)))
    assert "Traceback" not in server.logged()


def test_ctrl_c_reaches_all(server):
    workers = processes(server)
    assert server.stop(signal.SIGINT) == 0
    assert not any(map(is_alive, workers))


def test_sqlite_is_refused(cli, tmp_path):
    done = cli("serve", "--store", f"sqlite:///{tmp_path}/shop.db", "--port", 0, "--workers", 2)
    assert done.exit_code == 2
    assert "PostgreSQL" in done.stderr


@pytest.mark.parametrize(
    ("store", "learner", "available", "separate"),
    [
        ("sqlite:///shop.db", "process", True, True),
        ("postgresql://host/shop", "process", True, True),
        ("sqlite:///shop.db", "inline", True, False),
        ("sqlite:///shop.db", "process", False, False),  # such as on Windows
        ("sqlite://", "process", True, False),  # no other process can read it
    ],
)
def test_where_learning_happens(store, learner, available, separate, monkeypatch):
    monkeypatch.setattr("duelrank.service.http.process.AVAILABLE", available)
    process = ServerProcess(store, Settings(), WebSettings(), False, "text", print, learner)
    with socket.socket() as listening:
        found = process._roles(listening, 2)
    roles = [(role.name, role.serves, role.learns) for role in found]
    if separate:
        channel = found[-1].work.args[0]
        for inbox in (channel._inbox, *channel._fronts):
            inbox.close()
    workers = [(f"worker {number}", True, not separate) for number in (1, 2)]
    assert roles == [*workers, *([("learner", False, True)] if separate else [])]


def test_an_experiment_survives_the_death_of_every_process(apart, sqlite_url):
    """What was acknowledged is counted once, in the order of showing, whatever was killed."""
    base, lists = f"{apart.url}/v1/experiments", {"a": ["d1", "d2"], "b": ["d3", "d4"]}
    assert httpx.post(base, json={"name": "spring", "systems": ["a", "b"]}, timeout=FOR_EVER).status_code == 201

    def has_shown(number):
        with suppress(httpx.TransportError):
            shown = httpx.post(f"{base}/spring/show", json={"impression_id": f"s{number}", "lists": lists})
            clicks = shown.json().get("documents", [])[:1]
            event = {"impression_id": f"s{number}", "event_id": f"e{number}", "clicks": clicks, "close": True}
            answers = (shown, httpx.post(f"{base}/spring/feedback", json=event))
            return all(each.is_success for each in answers)

    def counted():
        with suppress(httpx.TransportError, KeyError):
            return httpx.get(f"{base}/spring").json()["counted"]

    for number in range(30):
        if number % 10 == 5:
            os.kill(processes(apart, "learner")[-1], signal.SIGKILL)
        elif number % 10 == 9:
            os.kill(processes(apart)[-1], signal.SIGKILL)
        until(lambda number=number: has_shown(number), apart.logged)
    until(lambda: counted() == 30, apart.logged)
    with open_storage(sqlite_url) as storage:
        result = replay(storage, "spring")
    assert (result.difference, result.impressions, result.learned) == (None, 30, 30)
