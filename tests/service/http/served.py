"""A real service behind a real socket, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from tests.waiting import FOR_EVER, until

from duelrank.service import Service, Settings
from duelrank.service.http import KeyRing, WebSettings, create_app
from duelrank.service.http.protocol import HttpProtocol
from duelrank.service.http.schema import Document, FeedbackEvent, RankerSpec, RankRequest
from duelrank.service.http.server import _Server, listen

FAST = Settings(publish_every=0.05, poll_every=0.05, salt=b"tests")
SPEC = RankerSpec("shop", "mgd-dsp", ("bm25", "price", "rating"), representation="query-scaled", length=5, seed=3)


class Served:
    """A service in a thread with an event loop of its own; other threads call its coroutines with `do`."""

    def __init__(self, service: Service, port: int = 0, keys: KeyRing | None = None, settings: Any = None) -> None:
        self.service, self.storage = service, service.storage
        self._socket = listen("127.0.0.1", port)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = create_app(service, keys or KeyRing(service.storage), settings or WebSettings())
        self.state = app.state.app_state
        config = uvicorn.Config(
            app, http=HttpProtocol, ws="none", lifespan="on", log_config=None, timeout_graceful_shutdown=30
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
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(FOR_EVER)

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
