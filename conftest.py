"""A home of its own for every test, those in docstrings and pages included, and a registry that forgets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from duelrank import registry
from duelrank.experiments.run import extensions
from duelrank.storage import opening

_numbers = count(1)


@pytest.fixture(autouse=True)
def duelrank_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep caches and imported data sets of a test out of the user's home, and the user's out of the test."""
    home = tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"  # made by those tests only that use it
    monkeypatch.setenv("DUELRANK_HOME", str(home))
    return home


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Forget what a test registers, and the extensions that it loads."""
    registry.names()  # what is imported with the first question for a name is no part of the test
    tables = (registry._CLASSES, registry._ALIASES, registry._ALIAS_MODULES, extensions._loaded)
    tables += (opening._BACKENDS, opening._EXAMPLES)
    before, sources = [dict(table) for table in tables], list(registry._SOURCES)
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    registry._SOURCES[:] = sources
