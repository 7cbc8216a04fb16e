"""A folder of its own for every page, and nothing that a page registers is known to the next one."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def page_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_registry: None) -> None:
    """Let a page write files and register parts."""
    monkeypatch.chdir(tmp_path)
