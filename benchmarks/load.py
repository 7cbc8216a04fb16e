"""A small fast load generator: raw connections in one process of its own, so that the service has a core to itself.

Run as a program it prints what it measured as one line of JSON; `bench_service.py` and `soak.py` start it like that.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import cast
from urllib.parse import urlsplit

import numpy as np

N_DOCUMENTS, N_FEATURES, BATCH = 20, 46, 100


class Connection(asyncio.Protocol):
    """One connection that stays open: it sends a request and reads the status and the body of the answer."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass of it

    def data_received(self, data: bytes) -> None:
        """Hand the answer over once all of it is there."""
        self.buffer += data
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0 or self.waiter is None or self.waiter.done():
            return
        at = self.buffer.lower().find(b"content-length:", 0, head)
        size = int(self.buffer[at + 15 : self.buffer.find(b"\r\n", at)]) if at >= 0 else 0
        if len(self.buffer) >= head + 4 + size:
            answer = int(self.buffer[9:12]), bytes(self.buffer[head + 4 : head + 4 + size])
            del self.buffer[: head + 4 + size]
            self.waiter.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Let the one who waits know."""
        self.lost = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(ConnectionResetError("the service closed the connection"))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and wait for its answer."""
        if self.lost:
            raise ConnectionResetError("the connection is gone")
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiter


@dataclass
class Target:
    """Address of the service, and the head of a request to it."""

    url: str
    key: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80

    async def connect(self) -> Connection:
        """Open a connection."""
        return (await asyncio.get_running_loop().create_connection(Connection, self.host, self.port))[1]

    def head(self, path: str, size: int) -> bytes:
        """Return everything before the body."""
        key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        return (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{key}"
            f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        ).encode()


def new_ids() -> Iterator[bytes]:
    """Yield impression ids of one length, which no other run has."""
    run = secrets.token_hex(8)
    return (f"{run}-{number:012}".encode() for number in itertools.count())


class Traffic:
    """Requests to one ranker: lists of documents with random features, and clicks on the answers in batches."""

    def __init__(self, target: Target, path: str, ranker: str, variants: int = 64) -> None:
        self.target, self.ranker, self.ids = target, ranker, new_ids()
        rng = np.random.default_rng(1)
        self.tails = [self._documents(rng) for _ in range(variants)]
        size = len(b'{"impression_id":"') + len(next(self.ids))
        self.heads = [target.head(path, size + len(tail)) + b'{"impression_id":"' for tail in self.tails]
        self.number = 0

    def _documents(self, rng: np.random.Generator) -> bytes:
        features = rng.random((N_DOCUMENTS, N_FEATURES)).round(6).tolist()
        documents = [{"id": f"d{number}", "features": row} for number, row in enumerate(features)]
        return b'","documents":' + json.dumps(documents, separators=(",", ":")).encode() + b"}"

    def rank(self) -> bytes:
        """Return the next request for a list."""
        self.number += 1
        which = self.number % len(self.tails)
        return b"".join((self.heads[which], next(self.ids), self.tails[which]))

    def feedback(self, answers: list[bytes], close: bool = True) -> bytes:
        """Return the request that closes some lists, each with a click."""
        events = [self._click(json.loads(answer), close) for answer in answers]
        body = json.dumps(events, separators=(",", ":")).encode()
        return self.target.head(f"/v1/rankers/{self.ranker}/feedback", len(body)) + body

    def _click(self, answer: dict[str, object], close: bool) -> dict[str, object]:
        ranking = answer["ranking"]
        assert isinstance(ranking, list)
        self.number += 1
        clicked = ranking[self.number % min(3, len(ranking))]["id"]
        id = answer["impression_id"]
        return {"event_id": f"e-{id}", "impression_id": id, "clicks": [clicked], "close": close}


@dataclass
class Measured:
    """Measurements of a run of the generator; times in seconds."""

    requests: int = 0
    errors: int = 0
    seconds: float = 0.0
    events: int = 0
    busy: float = 0.0
    latencies: list[float] = field(default_factory=list, repr=False)
    problems: list[str] = field(default_factory=list)

    def note(self, problem: str) -> None:
        """Count an error, and keep the first few."""
        self.errors += 1
        if len(self.problems) < 5:
            self.problems.append(problem)

    def summary(self) -> dict[str, object]:
        """Return everything as plain numbers: rates per second, latencies in milliseconds."""
        content = asdict(self)
        times = np.array(content.pop("latencies") or [0.0]) * 1000
        content |= {f"p{q}": float(np.percentile(times, q)) for q in (50, 95, 99)}
        return content | {"rate": self.requests / max(self.seconds, 1e-9)}


class Generator:
    """Sends traffic over some connections, as fast as answers come or at a given rate."""

    def __init__(self, traffic: Traffic, learn: bool, keep: bool) -> None:
        self.traffic, self.learn, self.keep = traffic, learn, keep
        self.answers: list[bytes] = []
        self.kept: list[bytes] = []
        self.measured = Measured()

    async def rank(self, connection: Connection, due: float | None = None) -> None:
        """Ask for one list; where clicks are wanted and enough lists are there, send these too."""
        request = self.traffic.rank()
        started = time.perf_counter() if due is None else due
        status, body = await connection.ask(request)
        self.measured.latencies.append(time.perf_counter() - started)
        self.measured.requests += 1
        if status != 200:
            self.measured.note(f"{status} {body[:200]!r}")
        elif self.learn:
            self.answers.append(body)
            if len(self.answers) >= BATCH:
                await self.click(connection)
        elif self.keep:
            self.kept.append(body)

    async def click(self, connection: Connection) -> None:
        """Close the lists that came back so far, in one request."""
        batch, self.answers = self.answers, []
        status, body = await connection.ask(self.traffic.feedback(batch))
        if status not in (200, 202) or json.loads(body)["accepted"] != len(batch):
            self.measured.note(f"{status} {body[:200]!r}")
        self.measured.events += len(batch)

    async def as_fast_as_possible(self, connections: list[Connection], seconds: float) -> None:
        """Keep every connection busy."""
        end = time.perf_counter() + seconds

        async def client(connection: Connection) -> None:
            while time.perf_counter() < end:
                await self.rank(connection)

        await asyncio.gather(*(client(each) for each in connections))

    async def at_rate(self, connections: list[Connection], seconds: float, rate: float) -> None:
        """Start requests evenly; each one's time counts from when it was due, so that a stall is seen by all it delays."""
        due: asyncio.Queue[float | None] = asyncio.Queue()

        async def client(connection: Connection) -> None:
            while (when := await due.get()) is not None:
                await self.rank(connection, when)

        clients = [asyncio.create_task(client(each)) for each in connections]
        started = time.perf_counter()
        for number in range(int(rate * seconds)):
            when = started + number / rate
            if (ahead := when - time.perf_counter()) > 0:
                await asyncio.sleep(max(ahead, 0.001))  # without spinning: the service may need this core
            due.put_nowait(when)
        for _ in clients:
            due.put_nowait(None)
        await asyncio.gather(*clients)

    async def batches(self, connections: list[Connection]) -> None:
        """Send clicks on all lists that were kept, in batches, from all connections at once."""
        pending = [self.kept[i : i + BATCH] for i in range(0, len(self.kept), BATCH)]
        requests = [(len(batch), self.traffic.feedback(batch)) for batch in pending]
        self.measured = Measured()
        started = time.perf_counter()

        async def client(connection: Connection) -> None:
            while requests:
                count, request = requests.pop()
                began = time.perf_counter()
                status, body = await connection.ask(request)
                self.measured.latencies.append(time.perf_counter() - began)
                self.measured.requests += 1
                self.measured.events += count
                if status not in (200, 202) or json.loads(body)["accepted"] != count:
                    self.measured.note(f"{status} {body[:200]!r}")

        await asyncio.gather(*(client(each) for each in connections))
        self.measured.seconds = time.perf_counter() - started


async def timed(measured: Measured, work: Awaitable[None]) -> None:
    """Run something and note how long it took, and how much of that this process was computing."""
    started, cpu = time.perf_counter(), time.process_time()
    await work
    measured.seconds = time.perf_counter() - started
    measured.busy = (time.process_time() - cpu) / measured.seconds


async def generate(options: argparse.Namespace) -> dict[str, object]:
    target = Target(options.url, os.environ.get("DUELRANK_API_KEY"))
    path = options.path or f"/v1/rankers/{options.ranker}/rank"
    generator = Generator(Traffic(target, path, options.ranker), options.learn, options.feedback)
    connections = [await target.connect() for _ in range(options.connections)]
    for _ in range(options.warm_up):
        await generator.rank(connections[0])
    generator.measured = Measured(errors=generator.measured.errors, problems=generator.measured.problems)
    if options.rate:
        work = generator.at_rate(connections, options.seconds, options.rate)
    else:
        work = generator.as_fast_as_possible(connections, options.seconds)
    await timed(generator.measured, work)
    result = generator.measured.summary()
    if options.feedback:
        await generator.batches(connections[: options.senders])
        result["feedback"] = generator.measured.summary()
    return result


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="such as http://127.0.0.1:8000")
    parser.add_argument("--ranker", default="shop")
    parser.add_argument("--path", help="path of another endpoint that takes the same requests")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, help="requests per second; as fast as answers come unless given")
    parser.add_argument("--warm-up", type=int, default=50, help="requests that are not counted")
    parser.add_argument("--learn", action="store_true", help="click on every list and close it, in batches of 100")
    parser.add_argument("--feedback", action="store_true", help="then send clicks on all lists, and time these alone")
    parser.add_argument("--senders", type=int, default=4, help="connections that send feedback")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        print(json.dumps(runner.run(generate(options))))


if __name__ == "__main__":
    main()
