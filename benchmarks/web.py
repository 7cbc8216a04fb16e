"""Requests a second of /rank, beside a bare FastAPI endpoint that only decodes the same body and answers a list.

"web" is the web layer on a service that answers at once: the cost of routing, keys, limits, metrics and JSON. "service" is
the real one, on a file, where every list is on the disk before it is answered. One process each, and one for the client;
they are measured in turns, so that noise hits them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
import urllib.request
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

DOCUMENTS, FEATURES = 20, 46


def body() -> bytes:
    rng = np.random.default_rng(1)
    documents = [{"id": f"document-{i}", "features": rng.random(FEATURES).round(6).tolist()} for i in range(DOCUMENTS)]
    return json.dumps({"documents": documents}).encode()


def bare() -> FastAPI:
    """The least that an endpoint of this framework can do with the same body."""
    import msgspec

    from duelrank.serving import RankRequest

    app = FastAPI()
    decode = msgspec.json.Decoder(RankRequest).decode

    @app.post("/v1/rankers/{name}/rank")
    async def rank(name: str, request: Request) -> Response:
        given = decode(await request.body())
        listed = [{"id": document.id, "position": i + 1} for i, document in enumerate(given.documents[:10])]
        return Response(msgspec.json.encode(listed), media_type="application/json")

    return app


def web() -> FastAPI:
    """The web layer on a service that answers at once."""
    from duelrank.serving import Observer, RankAnswer, Ranked, RankRequest, Service, Settings
    from duelrank.serving.web import KeyRing, create_app
    from duelrank.storage import open_storage

    class Instant(Service):
        def __init__(self) -> None:
            self.settings = Settings()

        ready = True
        observer = Observer()

        async def start(self) -> None: ...
        async def stop(self) -> None: ...

        async def rank(self, name: str, request: RankRequest) -> RankAnswer:
            self.observer.ranked(name, len(request.documents))
            listed = [Ranked(document.id, i + 1) for i, document in enumerate(request.documents[:10])]
            return RankAnswer("i", 1, listed)

    storage = open_storage("sqlite://")
    return create_app(Instant(), KeyRing(storage))


def service(folder: str) -> FastAPI:
    """The real service, on a file."""
    from duelrank.serving import Service
    from duelrank.serving.web import KeyRing, create_app
    from duelrank.storage import open_storage

    storage = open_storage(f"sqlite:///{folder}/bench.db")
    return create_app(Service(storage), KeyRing(storage))


def serve(which: str, folder: str, pipe: Connection) -> None:
    from duelrank.serving.web.protocol import ImpatientProtocol
    from duelrank.serving.web.server import listen

    app = service(folder) if which == "service" else {"bare": bare, "web": web}[which]()
    listening = listen("127.0.0.1", 0)
    pipe.send(listening.getsockname()[1])
    http: Any = "httptools" if which == "bare" else ImpatientProtocol
    config = uvicorn.Config(app, http=http, loop="uvloop", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


async def load(port: int, seconds: float, connections: int) -> float:
    """Send the same request over some connections, each as soon as the last was answered; return requests a second."""
    content = body()
    head = f"POST /v1/rankers/shop/rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
    request = head.encode() + content
    done, until = 0, time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            size = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(size)
            done += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return done / (time.perf_counter() - began)


def make_ranker(port: int) -> None:
    """Make the ranker of the real service, as soon as that is ready."""
    spec = {"name": "shop", "algorithm": "mgd-dsp", "features": [f"f{i}" for i in range(FEATURES)]}
    for _ in range(600):
        with suppress(OSError):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/rankers", json.dumps(spec).encode())
            urllib.request.urlopen(request).close()
            return
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        compare(options, folder)


def compare(options: argparse.Namespace, folder: str) -> None:
    """Start the servers, measure them in turns, and print what was found."""
    context = multiprocessing.get_context("spawn")
    ports, servers = {}, []
    for which in ("bare", "web", "service"):
        near, far = context.Pipe()
        server = context.Process(target=serve, args=(which, folder, far), daemon=True)
        server.start()
        servers.append(server)
        ports[which] = near.recv()
    import uvloop

    make_ranker(ports["service"])
    rates: dict[str, list[float]] = {which: [] for which in ports}
    for _ in range(options.rounds):
        for which, port in ports.items():
            rates[which].append(uvloop.run(load(port, options.seconds, options.connections)))
    for which, found in rates.items():
        print(f"{which}: {statistics.median(found):,.0f} requests/s")
    for which in ("web", "service"):
        ratios = [ours / bare for ours, bare in zip(rates[which], rates["bare"], strict=True)]
        print(f"{which} / bare: {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")
    for server in servers:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
