"""A folder of its own for every page, a registry that forgets, and a service for the pages that call one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.http.served import FAST, serving

from duelrank.service import Service
from duelrank.storage import open_storage

#: The configuration of the site, which sets variables of the process, is no module with examples.
collect_ignore = ["conf.py", "generated.py"]

#: Pages that call a service at `url`: on the page a line that is not run sets it to that of a service of the reader's own.
SERVED = {
    "behind-a-search-engine.md",
    "shop-from-nothing.md",
    "three-configurations.md",
    "what-would-it-have-been-worth.md",
}


@pytest.fixture(autouse=True)
def page_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_registry: None) -> None:
    """Let a page write files and register parts."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def service(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    doctest_namespace: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Give a page, and the commands that it runs, the address of a real service."""
    if request.path.name not in SERVED:
        yield
        return
    with open_storage(f"sqlite:///{tmp_path}/duelrank.db") as storage, serving(Service(storage, FAST)) as served:
        doctest_namespace["url"] = served.url
        monkeypatch.setenv("DUELRANK_URL", served.url)
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield
        del doctest_namespace["url"]
