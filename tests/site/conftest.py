"""The site that `make docs` has built, opened from its folder; skips with a reason where there is no site or no browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Tab, browser, tab

__all__ = ["browser", "tab"]  # fixtures

#: Where the site is; DUELRANK_SITE names another folder.
SITE = Path(os.environ.get("DUELRANK_SITE") or Path(__file__).parents[2] / "build" / "site").resolve()


@pytest.fixture
def site() -> Path:
    """The folder of the site."""
    if not (SITE / "index.html").is_file():
        pytest.skip(f"needs the site (make docs), or DUELRANK_SITE with its folder: there is no {SITE}/index.html")
    return SITE


@pytest.fixture
def visit(site: Path, tab: Callable[..., Tab]) -> Iterator[Callable[..., Tab]]:
    """Open a page from the folder, as a double click on the file does; at the end no request may have left the folder."""
    left: list[str] = []

    def note(request: Any) -> None:
        if not request.url.startswith((f"{site.as_uri()}/", "data:")):
            left.append(request.url)

    def open_page(name: str = "index.html", **options: Any) -> Tab:
        found = tab("about:blank", **options)
        found.page.on("request", note)
        found.page.on("requestfailed", lambda request: left.append(f"failed: {request.url}"))
        found.page.goto(f"{site.as_uri()}/{name}")
        return found

    yield open_page
    assert left == []
