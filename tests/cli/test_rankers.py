"""``duelrank rankers``: what it asks of a service, what it shows, and what it says when something is wrong."""

import functools
import json

import httpx
import pytest
from typer.testing import CliRunner

import duelrank.client
from duelrank.cli import app
from duelrank.export import LinearModel

INFO = {
    "name": "shop", "algorithm": "mgd-dsp", "features": ["bm25", "price"], "impressions": 12_345, "learned": 3,
    "model_version": 2, "open": 2, "mode": "shadow", "pinned": 7, "created": 1_700_000_000.0,
}  # fmt: skip
CURVES = {
    "name": "shop", "model_version": 7, "curves": [
        {"name": "price", "domain": "value", "values": [5.0, 20.0, 900.0], "heights": [0.0, -2.0, -2.0], "shape": "ramps",
         "importance": 0.75, "edges": [5.0, 452.5, 900.0], "shares": [0.9, 0.1]},
        {"name": "bm25", "domain": "query range", "values": [0.0, 1.0], "heights": [0.0, 1.0], "shape": "line", "importance": 0.5},
    ],
}  # fmt: skip
VERSIONS = [{"version": 7, "time": 1_700_000_000.0, "number": 9, "current": True}]


class Service:
    """Answers every request about a ranker with the same ranker, and keeps what it was asked."""

    def __init__(self):
        self.requests = []
        self.failure = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            return self.failure
        if request.method == "DELETE":
            return httpx.Response(204)
        if request.url.path.endswith("/curves"):
            return httpx.Response(200, json=CURVES)
        if request.url.path.endswith("/versions"):
            return httpx.Response(200, json=VERSIONS)
        if request.url.path.endswith("/label"):
            return httpx.Response(200, json=VERSIONS[0])
        listed = request.method == "GET" and request.url.path == "/v1/rankers"
        return httpx.Response(200, json=[INFO] if listed else INFO)

    def asked(self, index=-1):
        request = self.requests[index]
        body = json.loads(request.content) if request.content else None
        return request.method, request.url.path, body


@pytest.fixture
def service(monkeypatch):
    """In place of the network."""
    service = Service()
    transport = httpx.MockTransport(service)
    monkeypatch.setattr(duelrank.client, "Client", functools.partial(duelrank.client.Client, transport=transport))
    monkeypatch.delenv("DUELRANK_URL", raising=False)
    monkeypatch.delenv("DUELRANK_API_KEY", raising=False)
    return service


def test_missing_values_and_contexts(cli, service):
    given = ("--missing", "price", "--missing", "age=30", "--context", "mobile=price", "--context", "mobile=bm25")
    declared = {"missing": {"price": "neutral", "age": 30.0}, "context": {"mobile": ["price", "bm25"]}}
    cli("rankers", "create", "shop", "mgd-dsp", "--features", "bm25,price,age", *given)
    method, path, body = service.asked()
    assert (method, path) == ("POST", "/v1/rankers")
    assert body == {"name": "shop", "algorithm": "mgd-dsp", "features": ["bm25", "price", "age"], **declared}
    cli("rankers", "change", "shop", *given)
    assert service.asked() == ("PATCH", "/v1/rankers/shop", declared)


def test_list(cli, cli_json, service):
    assert [each["name"] for each in cli_json("rankers", "list")] == ["shop"]
    assert str(service.requests[0].url) == "http://127.0.0.1:8000/v1/rankers"
    shown = cli("rankers", "list").stdout
    assert all(text in shown for text in ("shop", "mgd-dsp", "12,345"))
    service.failure = httpx.Response(200, json=[])
    empty = cli("rankers", "list")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "no rankers yet" in empty.stderr


def test_show(cli, cli_json, service):
    assert cli_json("rankers", "show", "shop")["features"] == ["bm25", "price"]
    lines = [line.split(maxsplit=1) for line in cli("rankers", "show", "shop").stdout.splitlines()]
    shown = {line[0]: line[-1].strip() for line in lines}
    assert (shown["features"], shown["impressions"], shown["pinned"]) == ("bm25, price", "12,345", "7")
    assert "skipped by reason" not in cli("rankers", "show", "shop").stdout
    service.failure = httpx.Response(200, json=INFO | {"skipped_by_reason": {"guard": 1100, "greedy": 2}})
    assert "guard 1,100, greedy 2" in cli("rankers", "show", "shop").stdout


def test_curves(cli, cli_json, service):
    assert cli_json("rankers", "curves", "shop", "--version", 7)["curves"][0]["name"] == "price"
    assert str(service.requests[0].url).endswith("/v1/rankers/shop/curves?version=7")
    rows = cli("rankers", "curves", "shop").stdout.splitlines()
    (price,), (bm25,) = ([row for row in rows if name in row] for name in ("price", "bm25"))
    assert all(text in price for text in ("0.75", "█▁▁▁", "900", "value"))
    assert all(text in bm25 for text in ("0.5", "▁▁▁▂", "▅", "query range"))
    assert "█" not in bm25, "all features have the same scale"


def test_curves_with_a_belief_have_their_deviation(cli, service):
    assert "±" not in cli("rankers", "curves", "shop").stdout
    curves = [each | {"deviation": 0.25, "uncertainty": 0.1} for each in CURVES["curves"]]
    service.failure = httpx.Response(200, json=CURVES | {"curves": curves})
    shown = cli("rankers", "curves", "shop").stdout
    assert "-2 ± 0.25" in shown
    assert " 1 ± 0.25" in shown


def test_warnings_of_the_service(cli, service):
    service.failure = httpx.Response(200, json=INFO | {"warnings": ["the disk is nearly full"]})
    assert cli("rankers", "show", "shop").stderr.strip() == "warning: the disk is nearly full"


def test_address_and_key(cli, service, monkeypatch):
    monkeypatch.setenv("DUELRANK_URL", "http://elsewhere:1")
    monkeypatch.setenv("DUELRANK_API_KEY", "id.secret")
    cli("rankers", "list")
    cli("rankers", "list", "--url", "https://other", "--api-key", "id.other")
    assert [each.url.host for each in service.requests] == ["elsewhere", "other"]
    keys = [each.headers["Authorization"] for each in service.requests]
    assert keys == ["Bearer id.secret", "Bearer id.other"]


def test_create(cli, service, tmp_path):
    words = ("--features", "bm25,price", "--length", 5, "--exploration", 0.5, "--mode", "shadow", "--seed", 3)
    more = (
        "--close-after",
        60,
        "--representation",
        "query-scaled >> ramps",
        "--precision",
        "float32",
        "--weight",
        "bm25=1.5",
        "--action",
        "click=1",
        "--action",
        "purchase=10",
    )
    result = cli("rankers", "create", "shop", "mgd-dsp", *words, *more)
    assert result.exit_code == 0, result.stderr
    assert service.asked() == (
        "POST",
        "/v1/rankers",
        {
            "name": "shop",
            "algorithm": "mgd-dsp",
            "features": ["bm25", "price"],
            "representation": "query-scaled >> ramps",
            "length": 5,
            "exploration": 0.5,
            "mode": "shadow",
            "seed": 3,
            "close_after": 60.0,
            "start": {"weights": {"bm25": 1.5}},
            "precision": "float32",
            "actions": {"click": 1.0, "purchase": 10.0},
        },
    )


def test_create_from_files(cli, service, tmp_path):
    model = LinearModel("old", 3, ("bm25",), [0.5]).to_json()
    (tmp_path / "model.json").write_text(model)
    (tmp_path / "names.txt").write_text("bm25\n")
    (tmp_path / "fixed.json").write_text('{"kind": "fixed", "features": {}}')
    files = ("--features-file", tmp_path / "names.txt", "--representation", tmp_path / "fixed.json")
    assert cli("rankers", "create", "shop", "mgd", *files, "--model", tmp_path / "model.json").exit_code == 0
    _, _, body = service.asked()
    assert body["features"] == ["bm25"]
    assert body["representation"] == {"kind": "fixed", "features": {}}
    assert body["start"] == {"model": json.loads(model)}


@pytest.mark.parametrize(
    ("words", "start"),
    [(("--from", "shop"), {"from": "shop"}), (("--from", "shop", "--from-version", 4), {"from": "shop", "version": 4})],
)
def test_create_from_another_ranker(cli, service, words, start):
    assert cli("rankers", "create", "new", "mgd", "--features", "bm25", *words).exit_code == 0
    assert service.asked()[2]["start"] == start


def test_change(cli, service):
    words = ("--exploration", 0, "--add-feature", "age", "--add-feature", "size", "--retire-feature", "price")
    assert cli("rankers", "change", "shop", *words).exit_code == 0
    body = {"exploration": 0.0, "add_features": ["age", "size"], "retire_features": ["price"]}
    assert service.asked() == ("PATCH", "/v1/rankers/shop", body)


def test_change_of_the_representation(cli, service):
    fit = {"lists": 400, "pairs": 3600, "share": 0.8803}
    service.failure = httpx.Response(200, json=INFO | {"fit": fit})
    shown = cli("rankers", "change", "shop", "--representation", "steps").stdout
    assert service.asked() == ("PATCH", "/v1/rankers/shop", {"representation": "steps"})
    assert "88.0% of 3,600 pairs of documents keep their order" in shown


GUARD = {
    "share": 0.2, "false_alarm_every": 1e6, "margin": 0.0, "on_alarm": "tell", "promote": [0.5, 1.0], "webhook": None,
    "anonymous": "count",
}  # fmt: skip


class TestGuard:
    @pytest.mark.parametrize(
        ("words", "guard"),
        [
            (("--guard",), {}),
            (
                ("--guard-with", "share=0.2", "--guard-with", "on_alarm=rollback"),
                {"share": 0.2, "on_alarm": "rollback"},
            ),
            (("--guard", "--guard-with", "promote=[0.5, 1]"), {"promote": [0.5, 1]}),
            (("--guard-with", "webhook=https://host/a=b"), {"webhook": "https://host/a=b"}),
        ],
    )
    def test_create(self, cli, service, words, guard):
        assert cli("rankers", "create", "shop", "mgd", "--features", "a", *words).exit_code == 0
        assert service.asked()[2]["guard"] == guard

    @pytest.mark.parametrize("words", [(), ("--no-guard",)])
    def test_create_without(self, cli, service, words):
        assert cli("rankers", "create", "shop", "mgd", "--features", "a", *words).exit_code == 0
        assert "guard" not in service.asked()[2]

    def test_change(self, cli, service):
        assert cli("rankers", "change", "shop", "--no-guard").exit_code == 0
        assert service.asked() == ("PATCH", "/v1/rankers/shop", {"guard": None})
        assert cli("rankers", "change", "shop", "--guard", "--length", 5).exit_code == 0
        assert service.asked() == ("PATCH", "/v1/rankers/shop", {"length": 5, "guard": {}})

    def test_settings_that_are_not_given_stay(self, cli, service, monkeypatch):
        monkeypatch.setitem(INFO, "guard", GUARD)
        assert cli("rankers", "change", "shop", "--guard-with", "share=0.5").exit_code == 0
        assert service.asked()[2] == {"guard": GUARD | {"share": 0.5}}

    def test_shown(self, cli, service, monkeypatch):
        monkeypatch.setitem(INFO, "guard", GUARD)
        assert "share 0.2, false alarm every 1000000.0, margin 0.0, on alarm tell, promote 0.5 1.0" in " ".join(
            cli("rankers", "show", "shop").stdout.split()
        )


class TestDeleting:
    def test_with_the_name_typed(self, service):
        result = CliRunner().invoke(app, ["rankers", "delete", "shop"], input="shop\n")
        assert result.exit_code == 0
        assert "12,345 impressions" in result.stderr
        assert service.asked()[:2] == ("DELETE", "/v1/rankers/shop")
        assert service.requests[-1].url.params["confirm"] == "shop"

    def test_with_another_name_typed(self, service):
        result = CliRunner().invoke(app, ["rankers", "delete", "shop"], input="shoe\n")
        assert result.exit_code == 2
        assert "nothing was deleted" in result.stderr
        assert {each.method for each in service.requests} == {"GET"}

    def test_without_an_answer(self, service):
        assert CliRunner().invoke(app, ["rankers", "delete", "shop"], input="").exit_code == 1
        assert {each.method for each in service.requests} == {"GET"}

    def test_in_a_script(self, cli, service):
        assert cli("rankers", "delete", "shop", "--yes", "shoe").exit_code == 2
        assert {each.method for each in service.requests} == {"GET"}
        result = cli("rankers", "delete", "shop", "--yes", "shop")
        assert (result.exit_code, result.stdout, result.stderr.strip()) == (0, "", "deleted shop")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("freeze", "shop"), ("POST", "/v1/rankers/shop/freeze", None)),
        (("resume", "shop"), ("POST", "/v1/rankers/shop/resume", None)),
        (("unpin", "shop"), ("POST", "/v1/rankers/shop/unpin", None)),
        (("rollback", "shop", 3), ("POST", "/v1/rankers/shop/rollback", {"version": 3})),
        (("pin", "shop", 3), ("POST", "/v1/rankers/shop/pin", {"version": 3})),
        (("label", "shop", 3, "kept"), ("POST", "/v1/rankers/shop/label", {"version": 3, "label": "kept"})),
        (("versions", "shop"), ("GET", "/v1/rankers/shop/model/versions", None)),
    ],
)
def test_control(cli, cli_json, service, words, asked):
    assert cli("rankers", *words).exit_code == 0
    assert service.asked() == asked
    cli_json("rankers", *words)
    assert service.asked() == asked


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("create", "shop", "mgd"), "give their names with --features"),
        (("create", "shop", "mgd", "--features", "a", "--weight", "a"), "NAME=NUMBER"),
        (("change", "shop", "--action", "purchase"), "NAME=NUMBER"),
        (("change", "shop", "--missing", "price=none"), "NAME=NUMBER"),
        (("change", "shop", "--context", "mobile"), "NAME=FEATURE"),
        (
            ("create", "shop", "mgd", "--features", "a", "--weight", "a=1", "--from", "b"),
            "only one of --weight, --from and --model",
        ),
        (("create", "shop", "mgd", "--features", "a", "--from-version", 1), "give its name with --from"),
        (("create", "shop", "mgd", "--features", "a", "--model", "absent.json"), "cannot read absent.json"),
        (("change", "shop"), "nothing to change"),
        (("change", "shop", "--no-guard", "--guard-with", "share=1"), "exclude each other"),
        (("create", "shop", "mgd", "--features", "a", "--guard-with", "share"), "NAME=VALUE"),
        (("list", "--url", "localhost"), "must be like http://"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_is_asked(cli, service, words, hint):
    result = cli("rankers", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert hint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert service.requests == []


def problem(status, title, detail):
    return httpx.Response(status, json={"title": title, "detail": detail})


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        (httpx.ConnectError("refused"), "is a service running at http://127.0.0.1:8000? Give its address with --url"),
        (problem(401, "Key missing", "no key"), "--api-key or DUELRANK_API_KEY"),
        (
            problem(404, "Unknown ranker", "no ranker is called 'shop'"),
            "404 Unknown ranker: no ranker is called 'shop'",
        ),
        (httpx.Response(200, text="<html>"), "not that of a duelrank service"),
    ],
)
def test_what_the_service_refuses_is_told_in_one_line(cli, service, monkeypatch, failure, hint):
    monkeypatch.setattr("duelrank.client.client.time.sleep", lambda seconds: None)
    service.failure = failure
    result = cli("rankers", "show", "shop")
    assert (result.exit_code, result.stdout) == (2, "")
    assert hint in result.stderr
    assert len(result.stderr.splitlines()) == 1
