"""``duelrank experiment``: what it asks of a service, and what it shows."""

import functools
import json

import httpx
import pytest
from typer.testing import CliRunner

import duelrank.client
from duelrank.cli import app

PAIR = {
    "one": "engine", "other": "semantic", "wins": 300, "losses": 200, "ties": 734, "win_rate": 0.6, "low": 0.52, "high": 0.68,
    "p_value": 0.0012, "better": "engine",
}  # fmt: skip
INFO = {
    "name": "spring", "systems": ["engine"], "rankers": ["semantic"], "verdict": "'engine' is better than 'semantic'",
    "created": 1_700_000_000.0, "stopped": None, "lists": 1_300, "open": 40, "waiting": 6, "counted": 1_234, "clicked": 800,
    "decisive": 500, "no_feedback": 20, "repeated": 0, "failed": 0, "late": 1, "anonymous": 0, "pairs": [PAIR],
    "warnings": ["look out"],
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """The requests that were sent, in place of the network."""
    found = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append(
            (request.method, request.url.path, dict(request.url.params), json.loads(request.content or "null"))
        )
        if request.method == "DELETE":
            return httpx.Response(204)
        listed = request.method == "GET" and request.url.path == "/v1/experiments"
        return httpx.Response(200, json=[INFO] if listed else INFO)

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(duelrank.client, "Client", functools.partial(duelrank.client.Client, transport=transport))
    monkeypatch.delenv("DUELRANK_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    return found


def run(*arguments, status=0, **others):
    result = CliRunner().invoke(app, ["experiment", *arguments], **others)
    assert result.exit_code == status, result.output
    return result


def test_create(asked):
    run("create", "spring", "engine", "other", "--ranker", "semantic", "--length", "5", "--action", "purchase=10")
    body = {
        "name": "spring",
        "systems": ["engine", "other"],
        "rankers": ["semantic"],
        "length": 5,
        "actions": {"purchase": 10.0},
    }
    assert asked == [("POST", "/v1/experiments", {}, body)]


def test_show(asked):
    result = run("show", "spring")
    assert asked == [("GET", "/v1/experiments/spring", {}, None)]
    assert result.stdout.startswith("'engine' is better than 'semantic'\n")
    for text in ("60.0%", "52.0% to 68.0%", "0.0012", "1,300 lists: 1,234 counted", "6 waiting; runs"):
        assert text in result.stdout
    assert "warning: look out" in result.stderr
    assert json.loads(run("show", "spring", "--json").stdout)["pairs"] == [PAIR]


def test_list_and_stop(asked):
    assert "engine, semantic" in run("list").stdout
    run("stop", "spring")
    assert asked[-1][:2] == ("POST", "/v1/experiments/spring/stop")


def test_delete_asks_for_the_name(asked):
    run("delete", "spring", "--yes", "other", status=2)
    assert [each[0] for each in asked] == ["GET"]
    run("delete", "spring", input="spring\n")
    assert asked[-1] == ("DELETE", "/v1/experiments/spring", {"confirm": "spring"}, None)
