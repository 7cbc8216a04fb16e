"""Several processes on one store: one dies and comes back, all stop together."""

import os
import re
import signal
from contextlib import suppress

import httpx
import pytest
from tests.service.http.conftest import DOCUMENTS, SHOP
from tests.service.http.test_serve import Server
from tests.waiting import FOR_EVER, until

pytestmark = pytest.mark.processes


@pytest.fixture
def server(postgres_url):
    started = Server("--store", postgres_url, "--workers", 2)
    yield started
    if started.process.poll() is None:
        for process in (started.process.pid, *processes(started)):  # workers that outlive it keep its output open
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        started.process.communicate()


def processes(server):
    """The processes of the workers, in the order in which they were started."""
    return [int(found) for found in re.findall(r"worker \d: process (\d+)", server.logged())]


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


def test_a_worker_that_dies_is_restarted_and_all_stop(server):
    assert server.said.count("listens on") == server.said.count("ready:") == 1
    until(lambda: server.logged().count("is ready") == 2, server.logged)
    first, second = processes(server)
    with httpx.Client(base_url=server.url, timeout=FOR_EVER) as client:
        assert client.post("/v1/rankers", json=SHOP).status_code == 201
    os.kill(first, signal.SIGKILL)
    until(lambda: f"worker 1 (process {first}) ended with status -9" in server.logged())
    for number in range(20):
        until(lambda number=number: is_ranked(server, number))
    until(lambda: server.logged().count("is ready") == 3, server.logged)
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
