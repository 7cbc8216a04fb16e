"""For all tests, those in docstrings and pages included: homes of their own, never the user's, and a registry that forgets."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from duelrank import storage
from duelrank.core import extensions, registry
from duelrank.core.home import home

_numbers = count(1)

# What takes long to make, compiled kernels and class paths of engines, is kept in the user's home, for all tests of all runs.
KEPT = Path(os.environ.setdefault("DUELRANK_TESTS_KEEP", str(home())))  # processes of pytest-xdist inherit it
os.environ.setdefault("NUMBA_CACHE_DIR", str(KEPT / "kernels"))


def pytest_configure(config: pytest.Config) -> None:
    """Give a home to what is outside of a test, too: collecting asks for names of data sets, fixtures of a session store some."""
    whole = tempfile.mkdtemp(prefix="duelrank-tests-")
    os.environ["DUELRANK_HOME"] = whole
    config.add_cleanup(lambda: shutil.rmtree(whole, ignore_errors=True))


@pytest.fixture(autouse=True)
def duelrank_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep caches and imported data sets of a test out of the user's home, and the user's out of the test."""
    own = tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"  # made by those tests only that use it
    monkeypatch.setenv("DUELRANK_HOME", str(own))
    return own


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Forget what a test registers, and the extensions that it loads."""
    registry.names()  # what is imported with the first question for a name is no part of the test
    tables = (registry._CLASSES, registry._ALIASES, registry._ALIAS_MODULES, extensions._loaded)
    tables += (storage._BACKENDS, storage._EXAMPLES)
    before, sources = [dict(table) for table in tables], list(registry._SOURCES)
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    registry._SOURCES[:] = sources
