"""docs/serving.md has every metric, error, setting and address that the service has, and its tour is true."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.waiting import FOR_EVER, until
from typer.testing import CliRunner

from duelrank.cli import app
from duelrank.cli.serve import serve as serve_command
from duelrank.service.http.errors import PROBLEMS
from duelrank.service.http.metrics import Metrics
from duelrank.service.http.routes import OPERATIONS
from duelrank.service.http.schema import GuardInfo, GuardSpec

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/serving.md has no section {title}"
    return found[1]


def families() -> list[str]:
    return sorted(family.name for family in Metrics().registry.collect())


@pytest.mark.parametrize("name", families())
def test_every_metric_is_explained(name):
    assert f"`{name}" in section("Metrics")


def test_no_metric_is_explained_that_does_not_exist():
    named = set(re.findall(r"^\| `(duelrank_\w+)`", section("Metrics"), re.MULTILINE))
    assert {name.removesuffix("_total") for name in named} == {name.removesuffix("_total") for name in families()}


@pytest.mark.parametrize("kind", PROBLEMS.values(), ids=lambda kind: kind.slug)
def test_every_error_is_explained(kind):
    assert re.search(rf"^\| {kind.status} \| `{kind.slug}` \|", section("Errors"), re.MULTILINE)


def test_every_option_of_serve_is_explained():
    for name in inspect.signature(serve_command).parameters:
        assert f"| `--{name.replace('_', '-')}`" in section("Settings")


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if not each.hidden], ids=lambda each: f"{each.method} {each.path}"
)
def test_every_address_is_listed(operation):
    assert f"`{operation.method} {operation.path}`" in section("Addresses")


GUARD = section("Modes, and a safe way into production")


def test_every_setting_of_a_guard_is_explained():
    rows = re.findall(r"^\| `(\w+)` \| (\S.*?) \|", GUARD, re.MULTILINE)
    named = {name: default for name, default in rows if name in GuardSpec.__struct_fields__}
    assert list(named) == list(GuardSpec.__struct_fields__)
    written = {name: json.loads(default.strip("`").replace(",000", "000")) for name, default in named.items()}
    assert msgspec.convert(written, GuardSpec) == GuardSpec()


def test_what_a_guard_says_is_whole():
    shown = re.search(r"^\{\"name\": \"guarded\".*?^```", GUARD, re.MULTILINE | re.DOTALL)[0].removesuffix("```")
    found = json.loads(re.sub(r"\n\s+", " ", shown))
    assert list(found) == list(GuardInfo.__struct_fields__)
    assert msgspec.convert(found, GuardInfo).guard == GuardSpec()


def test_every_alert_is_listed():
    rules = (Path(__file__).parents[2] / "deploy" / "prometheus-rules.yml").read_text()
    named = re.findall(r"^\| (`Duelrank.*?) \| (\S.*?) \|", section("Metrics"), re.MULTILINE)
    listed = [
        each for names, severities in named for each in zip(names.split(", "), severities.split(", "), strict=True)
    ]
    alerts = re.findall(r"alert: (\w+)$.*?severity: (\w+)$", rules, re.MULTILINE | re.DOTALL)
    assert [(name.strip("`"), severity) for name, severity in listed] == alerts


def test_the_way_into_production_can_be_walked(url):
    """The request, the script (with fewer users) and the command of the page, one after the other."""
    (body,) = re.findall(r"curl localhost:8000/v1/rankers -d '(.*?)'", GUARD)
    assert httpx.post(f"{url}/v1/rankers", content=body, timeout=FOR_EVER).status_code == 201
    (script,) = re.findall(r"```python\n(.*?)```", GUARD, re.DOTALL)
    assert "range(2000)" in script
    exec(script.replace("http://127.0.0.1:8000", url).replace("range(2000)", "range(30)"), {})
    until(lambda: httpx.get(f"{url}/v1/rankers/guarded", timeout=FOR_EVER).json()["imitated"] == 30)
    result = CliRunner().invoke(app, ["guard", "guarded", "--once", "--url", url])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("guarded  imitates your order: 30 of 300 lists  version ")


def test_the_memory_can_be_taught_seen_exported_and_forgotten(url):
    """The request, the script (with fewer users) and the commands of the page, one after the other."""
    page = section("Memory of queries")
    (body,) = re.findall(r"curl localhost:8000/v1/rankers -d '(.*?)'", page)
    assert httpx.post(f"{url}/v1/rankers", content=body, timeout=FOR_EVER).status_code == 201
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "range(200)" in script
    exec(script.replace("http://127.0.0.1:8000", url).replace("range(200)", "range(30)"), {})
    until(lambda: httpx.get(f"{url}/v1/rankers/heads", timeout=FOR_EVER).json()["learned"] == 30)
    asked = re.findall(r"^duelrank ((?:memory|forget) [^#\n]*)", page, re.MULTILINE)
    assert len(asked) == 5
    overview, one, *forgotten = (
        CliRunner().invoke(app, [*shlex.split(command), "--url", url], env={"COLUMNS": "80"}) for command in asked
    )
    assert {result.exit_code for result in (overview, one, *forgotten)} == {0}
    assert "2 queries, 20 documents" in overview.stdout
    assert "boots" not in one.stdout
    expected = re.findall(r"^(forgotten; .*)$", page, re.MULTILINE)
    assert [result.stderr.strip() for result in forgotten] == expected


def test_the_tour_is_true(url):
    """Every curl of the tour, in order, answers what the page says; only the time of creation differs."""
    blocks = re.findall(r"```(bash|json)\n(.*?)```", section("From nothing to the first learned click"), re.DOTALL)
    asked, answers = [], []
    for kind, content in blocks:
        if kind == "bash":
            asked += re.findall(r"curl localhost:8000(\S+)(?: -d '(.*?)')?$", content, re.DOTALL | re.MULTILINE)
        else:
            answers += [json.loads(line) for line in re.sub(r"\n ", " ", content).splitlines()]
    assert len(asked) == len(answers) == 5
    for (path, body), expected in zip(asked, answers, strict=True):
        if path.endswith("model"):
            wanted = expected["model_version"]
            until(lambda: httpx.get(url + path, timeout=FOR_EVER).json()["model_version"] == wanted)  # noqa: B023  # asked at once
        found = httpx.request("POST" if body else "GET", url + path, content=body or None, timeout=FOR_EVER).json()
        found.pop("created", None), expected.pop("created", None)
        assert found == expected
