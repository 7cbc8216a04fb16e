"""Waiting for a state, never for a time: how long it takes is a matter of the machine and of what else it does."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator

# Seconds after which something will never happen. In a fresh clone, on a machine under load, a service that makes its first
# ranker compiles for more than one of these minutes.
FOR_EVER = 300.0


def until(condition: Callable[[], object], seen: Callable[[], object] = lambda: "nothing") -> None:
    """Wait until a condition holds; where it never does, fail and tell what was seen instead."""
    for _ in _attempts(condition, seen):
        time.sleep(0.005)


async def until_async(condition: Callable[[], object], seen: Callable[[], object] = lambda: "nothing") -> None:
    """Wait in an event loop until a condition holds, as `until` does."""
    for _ in _attempts(condition, seen):
        await asyncio.sleep(0.002)


def _attempts(condition: Callable[[], object], seen: Callable[[], object]) -> Iterator[None]:
    end = time.monotonic() + FOR_EVER
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {inspect.getsource(condition).strip()}; seen: {seen()}")
        yield
