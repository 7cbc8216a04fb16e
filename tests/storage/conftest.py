"""Stores of every kind, and other processes that use them; the PostgreSQL server is in the conftest above."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest

import duelrank
from duelrank.storage import NewEvent, Storage, open_storage

# Other processes of these tests need the storage only, and none of the compiled kernels that take a second to import.
LIGHT = f"""
import sys, types
sys.modules["duelrank"] = types.ModuleType("duelrank")
sys.modules["duelrank"].__path__ = {list(duelrank.__path__)!r}
from duelrank.storage import NewEvent, open_storage
"""


@pytest.fixture
def store(durable_url: str) -> Iterator[Storage]:
    """An empty store in SQLite or PostgreSQL."""
    with open_storage(durable_url) as store:
        yield store


@pytest.fixture
def any_store(any_url: str) -> Iterator[Storage]:
    """An empty store of each kind."""
    with open_storage(any_url) as store:
        yield store


@pytest.fixture
def event() -> Callable[..., NewEvent]:
    """Make an event; what is not given is the same in all of them."""

    def make(key="k", ranker="shop", kind="ranked", time=1.5, body=b"body", attachment=None, follows=False):
        return NewEvent(ranker, kind, str(key), time, body, attachment, follows)

    return make


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen]]:
    """Start another Python process that has `NewEvent` and `open_storage`; ended after the test at the latest."""
    started = []

    def start(code: str, *arguments: object) -> subprocess.Popen:
        command = [sys.executable, "-c", LIGHT + textwrap.dedent(code), *map(str, arguments)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for each in started:
        with each:  # closes its pipes
            each.kill()
