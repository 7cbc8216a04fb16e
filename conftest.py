"""Homes of their own for the tests, those in docstrings and pages included, so that none reads or writes the user's."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest

from duelrank.home import home

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
