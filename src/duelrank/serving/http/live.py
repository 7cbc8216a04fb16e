"""A live stream of one ranker: server-sent events, about one a second, each with its newest numbers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from duelrank.api import Live
from duelrank.core.errors import DuelrankError
from duelrank.serving.http.auth import token_of
from duelrank.serving.ranker.history import STEPS, Step

if TYPE_CHECKING:
    from duelrank.serving.http.routes import Call

__all__ = ["EVERY", "messages"]

EVERY = 1.0
"""Seconds between two messages."""

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


async def messages(call: Call, step: Step) -> AsyncIterator[bytes]:
    """Yield messages until the service ends, the ranker is gone or the key is no longer good.

    The next one is made when the one before was taken, so for a slow reader there are fewer, and none waits in memory.
    """
    before: tuple[int, float] | None = None
    while call.service.ready and not call.service.ending:
        try:
            _check_key(call)
            last = await asyncio.to_thread(call.service.storage.log.last_number)
            now = time.monotonic()
            rate = None if before is None else max(0, last - before[0]) / max(now - before[1], 1e-3)
            before = last, now
            yield b"data: " + _encode(await asyncio.to_thread(_now, call, step, rate)) + b"\n\n"
        except DuelrankError as error:
            log.info("a live stream of %r ends: %s", call.name, error)
            return
        await asyncio.sleep(EVERY)


def _now(call: Call, step: Step, rate: float | None) -> Live:
    service, name, now = call.service, call.name, time.time()
    info = call.shown(service.ranker(name))
    guard = None if info.guard is None else call.shown(service.guard(name))
    history = service.history(name, step, now - STEPS[step][0])
    return Live(now, info, guard, service.lag(), rate, history)


def _check_key(call: Call) -> None:
    """Raise where the key was revoked meanwhile."""
    keys = call.desk.gate.keys
    if keys.in_force:
        keys.holder(token_of(call.headers), "admin")
