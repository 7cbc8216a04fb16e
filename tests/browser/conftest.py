"""A real browser, and services for it to look at; skips with a reason where there is no browser."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.service.http.served import FAST, SPEC, Served, serving
from tests.waiting import FOR_EVER

from duelrank.service import Service
from duelrank.storage import Storage, open_storage

#: Where a Chromium may be; DUELRANK_CHROMIUM names another one.
CHROMIUM = os.environ.get("DUELRANK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def storage(tmp_path) -> Iterator[Storage]:
    """An empty store in a file."""
    with open_storage(f"sqlite:///{tmp_path}/store.db") as found:
        yield found


@pytest.fixture
def served(storage) -> Iterator[Served]:
    """A real service with a ranker called shop, which has no lists yet."""
    with serving(Service(storage, FAST)) as found:
        found.do(found.service.create(SPEC))
        yield found


@pytest.fixture(
    scope="module"
)  # while Playwright runs, its event loop is the one of this thread: no other test could have one
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium), or DUELRANK_CHROMIUM with its path")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


class Tab:
    """A page, and all that its browser complains of."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._note)
        page.set_default_timeout(1000 * FOR_EVER)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something in the page; the browser goes on meanwhile, which a plain sleep would not let it."""
        end = time.monotonic() + FOR_EVER
        while not condition():
            assert time.monotonic() < end, self.page.locator("body").inner_text()[:3000]
            self.page.wait_for_timeout(50)


@pytest.fixture
def tab(browser) -> Iterator[Callable[..., Tab]]:
    """Open an address in a new tab; at the end nothing may have been complained of."""
    opened = []

    def open_tab(url: str, width: int = 1440, height: int = 900, dark: bool = False, **options: Any) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options
        )
        found = Tab(context.new_page())
        opened.append((context, found))
        found.page.goto(url)
        return found

    yield open_tab
    complaints = [each for _, found in opened for each in found.complaints]
    for context, _ in opened:
        context.close()
    assert complaints == []
