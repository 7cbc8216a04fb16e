"""Limits of the web layer: rates, sizes of bodies, concurrent requests, and fair scheduling of heavy ones."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from starlette.types import Receive

from duelrank.service.http.errors import BodyTooLarge, ClientGone, MalformedBody, TooBusy

#: The most bytes and seconds to read of a refused body before the connection is closed: a client that is still sending reads the
#: answer only after that, and loses it if the connection is closed before.
MAX_DISCARDED, DISCARD_SECONDS = 64 << 20, 10.0


@dataclass(frozen=True)
class WebSettings:
    """Limits of the web layer, each of one process.

    Parameters
    ----------
    max_body
        Maximum number of bytes in the body of a request.
    max_waiting
        Maximum number of bytes of all bodies that have arrived in part.
    max_requests
        Maximum number of concurrent requests.
    max_streams
        Maximum number of concurrent live streams, which do not count as requests.
    rate
        Maximum requests per second of one API key, or of one address on an open service; 0 for no limit. Without keys, requests
        from this machine are not limited.
    burst
        Number of requests that may arrive at once after a pause, as seconds of the rate.
    insecure
        Whether to answer everybody if there is no API key: also requests from other machines, through a proxy or from a web page.
    heavy
        Number of bytes above which a body is heavy: it is decoded in a thread, and such requests are scheduled fairly.
    heavy_at_once
        Maximum number of concurrent heavy requests.
    heavy_waiting
        Maximum number of waiting heavy requests of one caller to one ranker.
    bad_keys
        Maximum unknown API keys per second of one address, and ten times as many at once; further ones are not checked.
    """

    max_body: int = 8 << 20
    max_waiting: int = 256 << 20
    max_requests: int = 1_000
    max_streams: int = 100
    rate: float = 1_000.0
    burst: float = 2.0
    insecure: bool = False
    heavy: int = 256 << 10
    heavy_at_once: int = 1
    heavy_waiting: int = 32
    bad_keys: float = 1.0


class Buckets:
    """Token buckets by caller: each is filled at a rate, up to a size, and every request takes a token.

    Parameters
    ----------
    rate
        Tokens per second.
    size
        Capacity of a bucket: the number of requests that may arrive at once after a pause.
    max_callers
        Maximum number of remembered callers; the least recent one is removed first, and starts with a full bucket again.
    """

    def __init__(self, rate: float, size: float, max_callers: int = 10_000) -> None:
        self.rate, self.size, self.max_callers = rate, max(size, 1.0), max_callers
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait(self, caller: Hashable, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        level = self._level(caller, now)
        allowed = level >= 1.0
        self._levels[caller] = (level - 1.0 if allowed else level, now)
        self._levels.move_to_end(caller)
        if len(self._levels) > self.max_callers:
            self._levels.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self.rate

    def peek(self, caller: Hashable, now: float) -> float:
        """Return the seconds until there is a token, without taking one."""
        return max(0.0, 1.0 - self._level(caller, now)) / self.rate

    def _level(self, caller: Hashable, now: float) -> float:
        level, then = self._levels.get(caller, (self.size, now))
        return min(self.size, level + max(0.0, now - then) * self.rate)

    def __len__(self) -> int:
        return len(self._levels)


@dataclass
class BodyReader:
    """Reads bodies up to a size, and limits the bytes of all unfinished bodies."""

    max_bytes: int
    max_waiting: int
    waiting: int = 0

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return a body; raise as soon as it is known to be too large."""
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit():
            raise MalformedBody("the Content-Length is not a number")
        self._check(int(announced[:20]))
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            self._check(len(message["body"]))
            if len(message["body"]) < int(announced) and b"upgrade" in headers:
                raise MalformedBody("with an Upgrade header the body is not read: use HTTP/1.1 without it")
            return bytes(message["body"])
        held = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGone("the client disconnected before the body was complete")
                chunk = message.get("body", b"")
                held += chunk
                self._hold(len(chunk), len(held))
                if not message.get("more_body"):
                    return bytes(held)
                message = await receive()
        finally:
            self.waiting -= len(held)

    def _check(self, size: int) -> None:
        if size > self.max_bytes:
            raise BodyTooLarge(f"a body may have {self.max_bytes:,} bytes; send less at a time")

    def _hold(self, more: int, size: int) -> None:
        self.waiting += more
        self._check(size)
        if self.waiting > self.max_waiting:
            raise TooBusy("too many large bodies arrive at the same time")


async def discard_body(receive: Receive) -> None:
    """Read the rest of a body, within limits, and discard it."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while size <= MAX_DISCARDED and (message := await receive()).get("more_body"):
                size += len(message["body"])


class FairSemaphore:
    """A semaphore for heavy work that serves callers round-robin.

    Every waiting caller has a queue; a free slot goes to the head of the queue that was served longest ago. A caller that sends a
    hundred heavy requests delays another caller's request by one of them, not by a hundred.

    Parameters
    ----------
    slots
        Maximum number of concurrent holders.
    max_waiting
        Maximum number of waiting requests of one caller; further ones raise `TooBusy`.
    """

    def __init__(self, slots: int = 1, max_waiting: int = 32) -> None:
        self.free, self.max_waiting = slots, max_waiting
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, caller: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the length of the block."""
        await self._acquire(caller)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, caller: Hashable) -> None:
        if self.free > 0:
            self.free -= 1
            return
        queue = self._queues.setdefault(caller, deque())
        if len(queue) >= self.max_waiting:
            raise TooBusy(f"{len(queue)} large requests of this caller are waiting already; send fewer at once")
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._remove(caller, granted)
            else:  # the slot was granted at the same moment: it goes to the next
                self._release()
            raise

    def _remove(self, caller: Hashable, granted: asyncio.Future[None]) -> None:
        queue = self._queues.get(caller)
        if queue is not None and granted in queue:
            queue.remove(granted)
            if not queue:
                del self._queues[caller]

    def _release(self) -> None:
        """Grant the slot to the first of the next queue, which then goes behind all others."""
        while self._queues:
            caller, queue = self._queues.popitem(last=False)
            granted = queue.popleft()
            if queue:
                self._queues[caller] = queue
            if not granted.done():
                granted.set_result(None)
                return
        self.free += 1

    @property
    def waiting(self) -> int:
        """The number of waiting requests."""
        return sum(map(len, self._queues.values()))
