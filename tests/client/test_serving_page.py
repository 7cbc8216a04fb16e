"""docs/serving.md has every metric, every error, every setting and every address that the service has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duelrank.serving.web.metrics import Metrics
from duelrank.serving.web.operations import OPERATIONS
from duelrank.serving.web.problems import TABLE

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


@pytest.mark.parametrize("kind", TABLE.values(), ids=lambda kind: kind.slug)
def test_every_error_is_explained(kind):
    assert re.search(rf"^\| {kind.status} \| `{kind.slug}` \|", section("Errors"), re.MULTILINE)


def test_every_option_of_serve_is_explained():
    import inspect

    from duelrank.cli.serve import serve

    for name in inspect.signature(serve).parameters:
        assert f"| `--{name.replace('_', '-')}`" in section("Settings")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: f"{each.method} {each.path}")
def test_every_address_is_listed(operation):
    assert f"`{operation.method} {operation.path}`" in section("Addresses")
