"""The recipes of CONTRIBUTING.md are true: each file is taken from the page, loaded from outside the package and used."""

from __future__ import annotations

import re
import shlex
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from tests.service.http.conftest import TestClient
from tests.waiting import until
from typer.testing import CliRunner

from duelrank import parse, simulate, spell
from duelrank.cli import app
from duelrank.core.extensions import VARIABLE, load_extension
from duelrank.export import FORMATS, LinearModel, export
from duelrank.export.base import export_query, options_of
from duelrank.service import Service
from duelrank.service.http import KeyRing, create_app
from duelrank.service.http.routes import OPERATIONS
from duelrank.storage import NewEvent, open_storage
from duelrank.testing import check_algorithm, check_storage

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = {
    found["name"]: found["text"]
    for found in re.finditer(r"^```(?:python|toml)\n# (?P<name>\S+)\n(?P<text>.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
}
COMMANDS = re.findall(r"^\$ duelrank --load (\S+) (.*)$", PAGE, re.MULTILINE)
#: Added to the commands of the page, which are of a useful size, so that a test takes moments.
SMALL = {
    "compare": ["--runs", "1", "-n", "50", "-d", "synthetic(n_queries=10)", "--workers", "1"],
    "run": ["-n", "50"],
    "reproduce": ["--workers", "1"],
    "describe": [],
    "export": [],
    "keys": [],
}

MODEL = LinearModel("shop", 7, ("bm25", "price"), [0.5, -0.25])


@pytest.fixture
def files(tmp_path, monkeypatch, clean_registry):
    """The files of the page, in the current folder."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "model.json").write_bytes(export(MODEL, "json"))
    commands, formats = list(app.registered_commands), dict(FORMATS)
    yield tmp_path
    app.registered_commands[:] = commands
    FORMATS.clear()
    FORMATS.update(formats)


def test_the_page_has_a_file_and_a_command_for_each_kind_of_addition():
    wanted = {
        "my_algorithm.py",
        "my_update.py",
        "my_representation.py",
        "my_user.py",
        "my_metric.py",
        "my_data.py",
        "my_table.py",
        "my_command.py",
        "my_format.py",
        "my_storage.py",
    }
    assert {file for file, _ in COMMANDS} == wanted
    assert set(FILES) == wanted | {"my-suite.toml", "my_endpoint.py", "my_counter.py"}


@pytest.mark.parametrize(("file", "command"), COMMANDS, ids=[file for file, _ in COMMANDS])
def test_the_command_of_the_page_runs(files, file, command):
    arguments = shlex.split(command)
    result = CliRunner().invoke(app, ["--load", file, *arguments, *SMALL[arguments[0]]], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    shown = {"my_algorithm.py": "clearest-mgd-dsp", "my_table.py": "Updates", "my_command.py": "5 features"}
    shown["my_format.py"] = "bm25;0,50 price;-0,25"
    assert shown.get(file, "") in " ".join(result.output.split())


def test_the_algorithm_keeps_the_conventions(files):
    load_extension("my_algorithm.py")
    check_algorithm("clearest-mgd")
    assert spell(parse("clearest-mgd-dsp(n_candidates=4)")) == "clearest-mgd-dsp(n_candidates=4)"


def test_the_update_rule_moves(files):
    load_extension("my_update.py")
    check_algorithm("dbgd(step=SignStep())")


def test_the_representation_is_seen(files):
    load_extension("my_representation.py")
    check_algorithm("logarithm >> mgd-dsp")


def test_the_user_and_the_metric_can_be_named(files):
    load_extension("my_user.py")
    load_extension("my_metric.py")
    record = simulate("mgd", "synthetic(n_queries=10)", "hurried(positions=2)", impressions=50, metric="Success@3")
    assert set(record.online) <= {0.0, 1.0}


def test_nothing_is_learned_from_noise(files):
    load_extension("my_data.py")
    record = simulate("mgd", "noise", "perfect", impressions=300)
    assert abs(record.offline[-1] - record.offline[0]) < 0.15


def test_the_format_is_known_to_python_to_the_command_line_and_to_http(files):
    load_extension("my_format.py")
    assert export(MODEL, "csv", separator=",", digits=1) == b"bm25,0.5\nprice,-0.2\n"
    shown = CliRunner().invoke(app, ["export", "--help"]).output
    assert "--decimal-comma" in shown
    query = msgspec.convert({"format": "csv", "digits": "1"}, export_query(), strict=False)
    assert options_of(query) == {"digits": 1}


def test_the_storage_backend_keeps_the_conventions(files):
    load_extension("my_storage.py")
    check_storage("compressed:///empty.db")
    with open_storage("compressed:///other.db") as store, open_storage("sqlite:///other.db") as plain:
        store.log.append([NewEvent("shop", "ranked", "k", 0.0, b"", attachment=bytes(100_000))])
        assert store.log.attachment("shop", 1) == bytes(100_000)
        assert len(plain.log.attachment("shop", 1)) < 1000


@pytest.fixture
def serve():
    """Serve with more operations or metrics than there are, and return a client."""
    with ExitStack() as stack:

        def start(**additions):
            storage = stack.enter_context(open_storage("sqlite://"))
            service = create_app(Service(storage), KeyRing(storage), **additions)
            client = stack.enter_context(TestClient(service, "http://127.0.0.1", client=("127.0.0.1", 5)))
            until(lambda: client.get("/readyz").status_code == 200)
            spec = {"name": "shop", "algorithm": "mgd", "features": ["bm25"]}
            assert client.post("/v1/rankers", json=spec).status_code == 201
            return client

        yield start


def test_the_endpoint_answers_and_is_documented(files, serve):
    added = load_extension("my_endpoint.py").SHARE
    client = serve(operations=(*OPERATIONS, added))
    assert client.get("/v1/rankers/shop/share").json() == {"learned": 0.0}
    assert client.get("/v1/rankers/nobody/share").status_code == 404
    described = client.get("/openapi.json").json()["paths"]["/v1/rankers/{name}/share"]["get"]
    assert described["summary"] == "Show the share of the impressions that the ranker has learned from"
    assert {"200", "401", "404"} <= set(described["responses"])


def test_the_metric_counts(files, serve):
    client = serve(metrics=load_extension("my_counter.py").MyMetrics())
    for count in (5, 200):
        documents = [{"id": str(number), "features": [1.0]} for number in range(count)]
        assert client.post("/v1/rankers/shop/rank", json={"documents": documents}).status_code == 200
    assert 'duelrank_large_impressions_total{ranker="shop"} 1.0' in client.get("/metrics").text
