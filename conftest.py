"""A home of its own for every test, those in docstrings and pages included."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

_numbers = count(1)


@pytest.fixture(autouse=True)
def duelrank_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep caches and imported data sets of a test out of the user's home, and the user's out of the test."""
    home = tmp_path_factory.getbasetemp() / f"home-{next(_numbers)}"  # made by those tests only that use it
    monkeypatch.setenv("DUELRANK_HOME", str(home))
    return home
