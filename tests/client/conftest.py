"""A real service for the tests of its clients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import uvicorn
from tests.waiting import until

from duelrank.service import Service, Settings
from duelrank.service.http import KeyRing, create_app
from duelrank.storage import Storage, open_storage


@contextmanager
def served(storage: Storage, port: int = 0) -> Iterator[int]:
    """Serve a store in a thread, and yield the port when it is ready."""
    settings = Settings(publish_every=0.05, poll_every=0.05, salt=b"")  # the lists in docs/serving.md have this salt
    service = Service(storage, settings)
    app = create_app(service, KeyRing(storage))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: (server.started and service.ready) or not thread.is_alive())
        assert server.started
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractContextManager[int]]:
    """Serve a store during a with statement, which yields the port."""
    return served


@pytest.fixture
def storage(tmp_path):
    """An empty store in a file."""
    with open_storage(f"sqlite:///{tmp_path}/store.db") as storage:
        yield storage


@pytest.fixture
def url(storage):
    """The address of a running service."""
    with served(storage) as port:
        yield f"http://127.0.0.1:{port}"
