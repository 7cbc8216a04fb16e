"""How much is too much: rates, bodies, requests at once, and turns of those that compute for long."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from starlette.types import Receive

from duelrank.service.http.errors import BodyTooLarge, ClientGone, MalformedBody, TooBusy

__all__ = ["BodyReader", "Buckets", "Turns", "WebSettings", "throw_away"]

#: Most bytes and seconds to read of a refused body before the connection is closed: a client that is still sending reads the answer
#: only after that, and loses it if the connection is closed before.
MOST_THROWN_AWAY, LINGERING = 64 << 20, 10.0


@dataclass(frozen=True)
class WebSettings:
    """Limits of the web layer, each of one process.

    Parameters
    ----------
    max_body
        Bytes of one request's body.
    max_waiting
        Bytes of all bodies together that have arrived in part.
    max_requests
        Requests that are being answered at once.
    max_streams
        Live streams that are open at once; they are not among those requests.
    rate
        Requests a second of one API key, or of one address on an open service; 0 for no limit. Without keys, requests
        from this machine are not limited.
    burst
        Requests that may come at once after a pause, as seconds of the rate.
    insecure
        Answer everybody when there is no API key, also requests that come from afar, through a proxy or from a web page.
    heavy
        Bytes from which on a body counts as heavy: it is decoded in a thread, and such requests take turns.
    heavy_at_once
        How many heavy requests are worked on at once.
    heavy_waiting
        How many heavy requests of one caller to one ranker may wait for their turn.
    bad_keys
        Bad API keys a second of one address, and ten times as many at once; more are refused without a look.
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
    """Token buckets by caller: each fills at a rate, up to a size, and every request takes one token out.

    Parameters
    ----------
    rate
        Tokens a second.
    size
        The most that a bucket holds: how many requests may come at once after a pause.
    most
        How many callers are remembered; the one that was quiet for longest is forgotten first, and starts full again.
    """

    def __init__(self, rate: float, size: float, most: int = 10_000) -> None:
        self.rate, self.size, self.most = rate, max(size, 1.0), most
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait(self, caller: Hashable, now: float) -> float:
        """Take a token and return 0, or leave it and return how many seconds it takes until there is one."""
        level = self._level(caller, now)
        allowed = level >= 1.0
        self._levels[caller] = (level - 1.0 if allowed else level, now)
        self._levels.move_to_end(caller)
        if len(self._levels) > self.most:
            self._levels.popitem(last=False)
        return 0.0 if allowed else (1.0 - level) / self.rate

    def needed(self, caller: Hashable, now: float) -> float:
        """Return how many seconds it takes until there is a token, and take none."""
        return max(0.0, 1.0 - self._level(caller, now)) / self.rate

    def _level(self, caller: Hashable, now: float) -> float:
        level, then = self._levels.get(caller, (self.size, now))
        return min(self.size, level + max(0.0, now - then) * self.rate)

    def __len__(self) -> int:
        return len(self._levels)


@dataclass
class BodyReader:
    """Reads bodies of up to a size, and holds only so many bytes of unfinished ones at a time."""

    most: int
    most_waiting: int
    waiting: int = 0

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Return a whole body; refuse one that is too large as soon as that is known."""
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit():
            raise MalformedBody("the Content-Length is not a number")
        self._check(int(announced[:20]))
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            self._check(len(message["body"]))
            return bytes(message["body"])
        held = bytearray()
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientGone("the client hung up before the body was whole")
                chunk = message.get("body", b"")
                held += chunk
                self._hold(len(chunk), len(held))
                if not message.get("more_body"):
                    return bytes(held)
                message = await receive()
        finally:
            self.waiting -= len(held)

    def _check(self, size: int) -> None:
        if size > self.most:
            raise BodyTooLarge(f"a body may have {self.most:,} bytes; send less at a time")

    def _hold(self, more: int, size: int) -> None:
        self.waiting += more
        self._check(size)
        if self.waiting > self.most_waiting:
            raise TooBusy("too many large bodies are on their way at once")


async def throw_away(receive: Receive) -> None:
    """Read the rest of a body, within bounds, and keep nothing of it."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGERING):
            while size <= MOST_THROWN_AWAY and (message := await receive()).get("more_body"):
                size += len(message["body"])


class Turns:
    """A fair gate for heavy work: a few slots, for which those who wait take turns, whoever has many requests.

    Everybody who waits has a queue; a free slot goes to the first of the queue that was served longest ago (round-robin).
    So a caller that sends a hundred heavy requests delays another one's by one of them, not by a hundred.

    Parameters
    ----------
    slots
        How many may be inside at once.
    most
        How many of one caller may wait; one more is refused as `TooBusy`.
    """

    def __init__(self, slots: int = 1, most: int = 32) -> None:
        self.free, self.most = slots, most
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, who: Hashable) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the length of the block."""
        await self._enter(who)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, who: Hashable) -> None:
        if self.free > 0:
            self.free -= 1
            return
        queue = self._queues.setdefault(who, deque())
        if len(queue) >= self.most:
            raise TooBusy(f"{len(queue)} large requests of this caller wait for their turn already; send fewer at once")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._forget(who, place)
            else:  # the slot came at the same moment: it goes to the next
                self._leave()
            raise

    def _forget(self, who: Hashable, place: asyncio.Future[None]) -> None:
        queue = self._queues.get(who)
        if queue is not None and place in queue:
            queue.remove(place)
            if not queue:
                del self._queues[who]

    def _leave(self) -> None:
        """Give the slot to the next queue's first; a queue that has more goes behind all others."""
        while self._queues:
            who, queue = self._queues.popitem(last=False)
            place = queue.popleft()
            if queue:
                self._queues[who] = queue
            if not place.done():
                place.set_result(None)
                return
        self.free += 1

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(map(len, self._queues.values()))
