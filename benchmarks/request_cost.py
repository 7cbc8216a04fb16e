"""Measures requests inside the HTTP process: the ASGI application is called without a server and without a load generator.

One line of JSON, medians of rounds: processor time of a rank in microseconds, all threads, by size and form of the body; of a
feedback event; for how many milliseconds a request with 1,000 events held the event loop (processor time of its thread); and how
late the event loop was beside large requests in JSON (90th percentile). To compare two sources, run it in turns:
``PYTHONPATH=/tmp/before/src python benchmarks/request_cost.py``. Nothing here fails for being slow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from duelrank.service import Service
from duelrank.service.http import create_app, decoding
from duelrank.service.http.auth import KeyRing
from duelrank.service.http.schema import RankerSpec
from duelrank.service.http.server import SWITCH
from duelrank.storage import open_storage

SHAPES = [(20, 46), (100, 136), (1000, 136)]
FORMS = {"JSON": b"application/json", "MessagePack": b"application/msgpack"}
N_EVENTS, BATCH = 1000, 100


def rank_bodies(shape: tuple[int, int], form: str) -> Iterator[bytes]:
    """Yield requests with new ids; the features have six digits."""
    features = np.random.default_rng(1).random(shape).round(6)
    ids, run = [f"d{number}" for number in range(shape[0])], secrets.token_hex(8)
    if form == "JSON":
        rows = [{"id": id, "features": row} for id, row in zip(ids, features.tolist(), strict=True)]
        text = msgspec.json.encode(rows)
        yield from (b'{"impression_id":"%b-%d","documents":%b}' % (run.encode(), n, text) for n in itertools.count())
    table = {"ids": ids, "features": features.astype("<f4").tobytes()}
    for number in itertools.count():
        yield msgspec.msgpack.encode({"impression_id": f"{run}-{number}", "documents": table})


async def ask(app: Any, path: str, body: bytes, media_type: bytes = FORMS["JSON"]) -> bytes:
    """Call the application as a server does, and return the body of its answer."""
    headers = [(b"host", b"127.0.0.1:1"), (b"content-type", media_type), (b"content-length", b"%d" % len(body))]
    scope = {"type": "http", "method": "POST", "path": path, "root_path": "", "query_string": b""}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope | {"headers": headers, "client": ("127.0.0.1", 1)}, receive, send)
    if sent[0]["status"] not in (200, 202):
        raise SystemExit(f"{sent[0]['status']} {sent[1]['body'][:300]!r}")
    content: bytes = sent[1]["body"]
    return content


async def rank(app: Any, shape: tuple[int, int], form: str, count: int, at_once: int) -> list[bytes]:
    """Ask for lists, some at a time, and return the answers."""
    bodies, left, answers = rank_bodies(shape, form), iter(range(count)), []

    async def client() -> None:
        for _ in left:
            answers.append(await ask(app, f"/v1/rankers/r{shape[0]}/rank", next(bodies), FORMS[form]))

    await asyncio.gather(*(client() for _ in range(at_once)))
    return answers


def feedback_bodies(answers: list[bytes], size: int) -> list[bytes]:
    """Return requests with a click on each list, which stays open, so that nothing is learned meanwhile."""
    lists = [json.loads(answer) for answer in answers]
    clicks = [{"impression_id": each["impression_id"], "clicks": [each["ranking"][0]["id"]]} for each in lists]
    return [msgspec.json.encode(clicks[start : start + size]) for start in range(0, len(clicks), size)]


async def held(work: Coroutine[Any, Any, Any]) -> float:
    """Run something, and return the longest processor time between two turns of the event loop."""
    task, turns = asyncio.ensure_future(work), [time.thread_time()]
    while not task.done():
        await asyncio.sleep(0)
        turns.append(time.thread_time())
    await task
    return float(np.diff(turns).max())


async def late(work: Coroutine[Any, Any, Any], step: float = 0.001) -> float:
    """Run something, and return how late the event loop was meanwhile, at the 90th percentile."""
    task, times = asyncio.ensure_future(work), []
    while not task.done():
        began = time.perf_counter()
        await asyncio.sleep(step)
        times.append(time.perf_counter() - began - step)
    await task
    return float(np.percentile(times, 90))


async def measure_round(app: Any, at_once: int) -> dict[str, float]:
    found, path = {}, "/v1/rankers/r20/feedback"
    for shape, form in itertools.product(SHAPES, FORMS):
        count, began = max(20, 20_000 // shape[0]), time.process_time()
        answers = await rank(app, shape, form, count, at_once if shape[0] < 1000 else 2)
        found[f"rank {shape[0]} x {shape[1]}, {form}, µs"] = 1e6 * (time.process_time() - began) / count
        if (shape, form) == (SHAPES[0], "JSON"):
            bodies, began = feedback_bodies(answers, BATCH), time.process_time()
            for body in bodies:
                await ask(app, path, body)
            found["feedback event, µs"] = 1e6 * (time.process_time() - began) / count
    more = await rank(app, SHAPES[0], "JSON", N_EVENTS, at_once)
    found[f"held by {N_EVENTS} events, ms"] = 1e3 * await held(ask(app, path, feedback_bodies(more, N_EVENTS)[0]))
    found["late beside 1000 x 136 in JSON, ms"] = 1e3 * await late(rank(app, SHAPES[-1], "JSON", 20, 2))
    return found


async def measure(folder: Path, rounds: int, at_once: int) -> dict[str, float]:
    with open_storage(f"sqlite:///{folder}/store.db") as storage:
        service = Service(storage)
        app = create_app(service, KeyRing(storage))
        await service.start()
        await service.wait_ready()
        for n_documents, n_features in SHAPES:
            names = tuple(f"f{number}" for number in range(n_features))
            await service.create(RankerSpec(f"r{n_documents}", "mgd-dsp", names))
        if hasattr(decoding, "array_reader"):  # not in earlier sources
            decoding.array_reader.prepare()
        await measure_round(app, at_once)
        gc.freeze()
        sys.setswitchinterval(SWITCH)
        found = [await measure_round(app, at_once) for _ in range(rounds)]
        await service.stop()
    return {name: round(float(np.median([each[name] for each in found])), 2) for name in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=16, help="requests at the same time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duelrank-bench-") as folder:
        print(json.dumps(asyncio.run(measure(Path(folder), options.rounds, options.at_once)), ensure_ascii=False))


if __name__ == "__main__":
    main()
