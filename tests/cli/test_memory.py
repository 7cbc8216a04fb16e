"""``duelrank memory`` and ``duelrank forget``: what they ask of a service, and what they show."""

import functools

import httpx
import pytest

import duelrank.client

INFO = {
    "name": "shop", "algorithm": "remember >> mgd-dsp", "features": ["bm25"], "impressions": 3, "learned": 3,
    "model_version": 2, "created": 0.0,
}  # fmt: skip
DOCUMENTS = [{"id": f"d{i}", "clicks": 12.0 - i, "views": 20.5, "boost": 1.25 - i} for i in range(5)]
QUERY = {"query": "red shoes", "lists": 1234, "effect": 2.75, "documents": DOCUMENTS}
MEMORY = {
    "ranker": "shop", "queries": 2, "documents": 7, "bytes": 2_500_000, "clicks_per_view": 0.25,
    "remembered": [QUERY, {"query": "[bold]boots", "lists": 3, "effect": 0.0, "documents": []}],
}  # fmt: skip


class Service:
    """Answers every request, and keeps what it was asked."""

    def __init__(self):
        self.requests, self.memory = [], MEMORY

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path.endswith("/export"):
            return httpx.Response(200, content=b"<elevate/>\n")
        return httpx.Response(200, json=INFO if request.method == "DELETE" else self.memory)

    def asked(self, index=-1):
        request = self.requests[index]
        return request.method, request.url.path, dict(request.url.params)


@pytest.fixture
def service(monkeypatch):
    """In place of the network."""
    service = Service()
    transport = httpx.MockTransport(service)
    monkeypatch.setattr(duelrank.client, "Client", functools.partial(duelrank.client.Client, transport=transport))
    monkeypatch.delenv("DUELRANK_URL", raising=False)
    monkeypatch.delenv("DUELRANK_API_KEY", raising=False)
    return service


def test_an_overview_shows_the_best_documents_of_each_query(cli, service):
    shown = cli("memory", "shop").stdout
    assert service.asked() == ("GET", "/v1/rankers/shop/memory", {"limit": "20"})
    assert all(text in shown for text in ("red shoes", "1,234", "12.0", "20.5", "+1.25", "[bold]boots"))
    assert shown.count("red shoes") == 1
    assert "d2" in shown
    assert "d3" not in shown
    assert "2 more" in shown
    assert "2 queries, 7 documents, 2,500,000 bytes; 0.25 clicks per view over all queries" in shown


@pytest.mark.parametrize(("option", "name"), [("--query", "query"), ("--query-key", "query_key")])
def test_one_query_is_shown_whole(cli, service, option, name):
    service.memory = MEMORY | {"remembered": [QUERY]}
    shown = cli("memory", "shop", option, "Red Shoes").stdout
    assert service.asked()[2] == {name: "Red Shoes", "limit": "20"}
    assert "d4" in shown
    assert "-2.75" in shown
    service.memory = MEMORY | {"remembered": []}
    unknown = cli("memory", "shop", option, "x")
    assert (unknown.exit_code, unknown.stdout) == (0, "")
    assert "does not know this query" in unknown.stderr
    assert "remembers no query yet" in cli("memory", "shop").stderr


def test_json(cli_json, service):
    assert cli_json("memory", "shop", "--limit", 3) == MEMORY
    assert service.asked()[2] == {"limit": "3"}


def test_an_export_goes_to_stdout_or_to_a_file(cli, service, tmp_path):
    assert cli("memory", "shop", "--export", "solr").stdout == "<elevate/>\n"
    usual = {"format": "solr", "queries": "100", "evidence": "10.0", "documents": "3"}
    assert service.asked() == ("GET", "/v1/rankers/shop/memory/export", usual)
    file = tmp_path / "elevate.xml"
    options = ("--export", "solr", "--top", 5, "--evidence", 2.5, "--documents", 1, "--out", file)
    assert cli("memory", "shop", *options).exit_code == 0
    assert service.asked()[2] == {"format": "solr", "queries": "5", "evidence": "2.5", "documents": "1"}
    assert file.read_text() == "<elevate/>\n"


@pytest.mark.parametrize(
    "words",
    [("--export", "solr", "--query", "a"), ("--export", "solr", "--json"), ("--out", "x.json")],
)
def test_options_that_do_not_go_together(cli, service, words):
    result = cli("memory", "shop", *words)
    assert result.exit_code == 2
    assert "--export" in result.stderr
    assert not service.requests


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("--query", "Red"), {"query": "Red"}),
        (("--query-key", "k"), {"query_key": "k"}),
        (("--document", "d1"), {"document": "d1"}),
        (("--everything",), {"confirm": "shop"}),
    ],
)
def test_forget(cli, service, words, sent):
    result = cli("forget", "shop", *words)
    assert result.exit_code == 0
    assert service.asked(-2) == ("DELETE", "/v1/rankers/shop/memory", sent)
    assert "forgotten; 2 queries left in the memory of shop" in result.stderr


@pytest.mark.parametrize("option", ["--query", "--query-key"])
def test_a_query_that_is_not_known_cannot_be_forgotten(cli, service, option):
    service.memory = MEMORY | {"remembered": []}
    assert "shop does not know this query" in cli("forget", "shop", option, "Red").stderr
    assert {request.method for request in service.requests} == {"GET"}


@pytest.mark.parametrize("words", [(), ("--everything", "--document", "d1"), ("--query", "a", "--query-key", "b")])
def test_forget_needs_to_know_what(cli, service, words):
    result = cli("forget", "shop", *words)
    assert result.exit_code == 2
    assert "one of --query" in result.stderr
    assert not service.requests
