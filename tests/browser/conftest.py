"""A real browser, and services for it to look at; skips with a reason where there is no browser."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from tests.waiting import until

from duelrank.api import Document, FeedbackEvent, RankerSpec, RankRequest
from duelrank.serving import Service, Settings
from duelrank.serving.http import KeyRing, WebSettings, create_app
from duelrank.serving.http.server import Protocol, _Server, listen
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
FAST = Settings(publish_every=0.05, poll_every=0.05)
SPEC = RankerSpec("shop", "mgd-dsp", ("bm25", "price", "rating"), representation="query-scaled", length=5, seed=3)


class Served:
    """A service in a thread with an event loop of its own; other threads call its coroutines with `do`."""

    def __init__(self, service: Service, port: int = 0, keys: KeyRing | None = None, settings: Any = None) -> None:
        self.service, self.storage = service, service.storage
        self._socket = listen("127.0.0.1", port)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = create_app(service, keys or KeyRing(service.storage), settings or WebSettings())
        self.desk = app.state.desk
        config = uvicorn.Config(
            app, http=Protocol, ws="none", lifespan="on", log_config=None, timeout_graceful_shutdown=30
        )
        self._server = _Server(config, service)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        until(lambda: (self._server.started and service.ready) or not self._thread.is_alive())
        assert self._server.started

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._server.serve(sockets=[self._socket]))
        self.loop.close()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def lists(self, name: str, numbers: range, clicks: Callable[[int, list[str]], list[str]] | None = None) -> None:
        """Rank some lists and close them, each with a click on the first document where nothing else is said."""
        features = self.service.ranker(name).features
        for number in numbers:
            documents = [
                Document(
                    f"d{row}", [((number * 7 + row * 13 + column * 29) % 17) / 17 for column in range(len(features))]
                )
                for row in range(8)
            ]
            answer = self.do(self.service.rank(name, RankRequest(documents, impression_id=f"i{number}")))
            clicked = answer.ids[:1] if clicks is None else clicks(number, answer.ids)
            self.do(self.service.feedback(name, [FeedbackEvent(f"i{number}", clicked, close=True)]))


@contextmanager
def serving(service: Service, **options: Any) -> Iterator[Served]:
    """Serve for as long as the block lasts."""
    served = Served(service, **options)
    try:
        yield served
    finally:
        served.stop()


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


@pytest.fixture(scope="session")
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
        page.set_default_timeout(20_000)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something in the page; the browser goes on meanwhile, which a plain sleep would not let it."""
        end = time.monotonic() + 30.0
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
