"""A home of its own for every test, those in docstrings and pages included."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def duelrank_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep caches and imported data sets of a test out of the user's home, and the user's out of the test."""
    home = tmp_path / "duelrank-home"
    monkeypatch.setenv("DUELRANK_HOME", str(home))
    return home
