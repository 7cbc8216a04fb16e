"""The reference describes every public name: what a page of docs/reference/api does not list is not found by a reader."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from tests.names import public_names

import duelrank
from duelrank.core import registry
from duelrank.export import FORMATS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference" / "api").glob("*.md")))
DIRECTIVE = re.compile(r"^\.\. automodule:: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)


def described() -> set[int]:
    """Return the ids of all that the directives describe."""
    found = set()
    for name, options in DIRECTIVE.findall(PAGES):
        module = importlib.import_module(name)
        names = _option(options, "members") or set(public_names(module)) - _option(options, "exclude-members")
        found |= {id(getattr(module, each)) for each in names}
    return found


def _option(options: str, name: str) -> set[str]:
    value = re.search(rf"^   :{name}:(.*)$", options, re.MULTILINE)
    return set(re.findall(r"\w+", value[1])) if value else set()


DESCRIBED = described()


@pytest.mark.parametrize("name", duelrank.__all__)
def test_public_names_are_described(name):
    assert id(getattr(duelrank, name)) in DESCRIBED


@pytest.mark.parametrize("name", registry.classes())
def test_registered_parts_are_described(name):
    assert id(registry.classes()[name]) in DESCRIBED


@pytest.mark.parametrize("name", FORMATS)
def test_export_formats_are_described(name):
    assert id(FORMATS[name]) in DESCRIBED


@pytest.fixture
def generated(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module("generated")
    sys.modules.pop("generated", None)


def test_the_command_line_is_described(generated):
    page = generated.command_line()
    assert "## `duelrank compare`" in page
    assert "--baseline" in page
    assert "### `duelrank rankers rollback`" in page
    assert "* [`compare`](#duelrank-compare): Compare algorithms" in page
    assert re.findall(r"^\* .*\.\.\.$", page, re.MULTILINE) == []


def test_every_operation_of_the_service_is_described(generated):
    from duelrank.service.http.routes import OPERATIONS

    page = generated.http_api()
    missing = [each.path for each in OPERATIONS if not each.hidden and f"### `{each.method} {each.path}`" not in page]
    assert missing == []
    links = set(re.findall(r"\]\(#([\w-]+)\)", page))
    heads = {head.lower() for head in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    assert links <= heads


def test_every_problem_of_the_service_is_described(generated):
    from duelrank.service.http.errors import PROBLEMS

    assert all(f"`/docs#{kind.slug}`" in generated.errors() for kind in PROBLEMS.values())


def test_the_tables_of_export_formats_are_up_to_date(generated):
    page = (DOCS / "export.md").read_text(encoding="utf-8")
    assert generated.with_export_tables(page) == page, "run `make tables`"
    assert all(f"| `{name}` |" in page for name in FORMATS)
