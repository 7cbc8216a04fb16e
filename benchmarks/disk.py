"""Measures what an impression costs: bytes in the store and milliseconds of CPU, for small and for large impressions.

Bytes: a service on SQLite ranks, gets a click for each impression and learns, in rounds, while retention runs; counted are the
pages that hold something, without snapshots, per impression, with its features and when these were dropped. CPU: that of
a whole `duelrank serve` process, for requests to rank alone on several connections, once with features as JSON numbers and once
in each compact form. With `--versions`: only the bytes of a version, which is saved about once per second, and of the state in a
checkpoint, after 200 lists.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import http.client
import itertools
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import numpy as np

from duelrank import Feedback, Learner, Query
from duelrank.client import Client
from duelrank.core.memory import for_ranking
from duelrank.core.types import State
from duelrank.service import Service, Settings
from duelrank.service.http.schema import Document, FeedbackEvent, RankerSpec, RankRequest
from duelrank.service.log import pack_state
from duelrank.storage import open_storage
from served import Process, service

SIZES = {"10 × 20": (10, 20), "20 × 46": (20, 46), "100 × 136": (100, 136)}
RANKER, VARIANTS, CONNECTIONS = "shop", 16, 8
JSON, MESSAGEPACK = "application/json", "application/msgpack"


class Refused(Exception):
    """The service did not take a request."""


class Caller:
    """A connection to a service that stays open, as those of an application do."""

    def __init__(self, process: Process) -> None:
        self.process, self.connection = process, http.client.HTTPConnection("127.0.0.1", process.port, timeout=60)

    def post(self, path: str, body: bytes, kind: str = JSON) -> Any:
        """Send a body, and return the answer."""
        self.connection.request("POST", path, body, {"Content-Type": kind, "Accept": JSON})
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise Refused(f"{answer.status} {json.loads(content).get('title', '')}")
        return json.loads(content)


class Requests:
    """Bodies of requests with random features in one form: the same numbers in all forms, but for their precision."""

    def __init__(self, form: str, n_documents: int, n_features: int) -> None:
        rng, self.form, self.nonce = np.random.default_rng(1), form, token_hex(4)
        self.tables = [rng.random((n_documents, n_features)).round(6) for _ in range(VARIANTS)]
        self.kind = MESSAGEPACK if form.startswith("MessagePack") else JSON
        self.documents = [self._documents(table) for table in self.tables]
        self.bodies: Iterator[bytes] = map(self._body, itertools.count())

    def _documents(self, table: np.ndarray[Any, Any]) -> Any:
        ids = [f"d{number}" for number in range(len(table))]
        if self.form.endswith("numbers"):
            return [{"id": id, "features": row} for id, row in zip(ids, table.tolist(), strict=True)]
        features = table.astype("<f4").tobytes()
        text = base64.b64encode(features).decode() if self.kind == JSON else features
        return {"ids": ids, "features": text, "type": "float32"}

    def _body(self, number: int) -> bytes:
        body = {
            "impression_id": f"{self.form}-{self.nonce}-{number:09}",
            "documents": self.documents[number % VARIANTS],
        }
        return msgspec.msgpack.encode(body) if self.kind == MESSAGEPACK else msgspec.json.encode(body)


FORMS = ("JSON, numbers", "JSON, base64 of float32", "MessagePack, numbers", "MessagePack, float32")


def cpu(process: Process, form: str, size: tuple[int, int], options: argparse.Namespace) -> dict[str, float]:
    """Return the milliseconds of CPU per request to rank, the requests per second, and the bytes of one."""
    made, path = Requests(form, *size), f"/v1/rankers/{RANKER}/rank"
    for body in itertools.islice(made.bodies, 50):
        Caller(process).post(path, body, made.kind)
    shares = [list(itertools.islice(made.bodies, options.requests // CONNECTIONS)) for _ in range(CONNECTIONS)]

    def ask(bodies: list[bytes]) -> None:
        caller = Caller(process)
        for body in bodies:
            caller.post(path, body, made.kind)

    before, began = process.computed(), time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(ask, shares))
    used, took = process.computed() - before, time.perf_counter() - began
    count = sum(map(len, shares))
    return {"CPU, ms": 1000 * used / count, "requests/s": count / took, "bytes": len(shares[0][0])}


def used(path: Path) -> int:
    """Return the bytes of the pages that hold something; the file itself does not shrink, its free pages are used again."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        one = {
            name: database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        }
    return int((one["page_count"] - one["freelist_count"]) * one["page_size"])


async def disk(path: Path, size: tuple[int, int], options: argparse.Namespace, keep_features: float) -> float:
    """Return the bytes per impression, with its click, all of them learned from."""
    settings = Settings(tidy_every=0.5, poll_every=0.1, keep_features=keep_features)
    with open_storage(f"sqlite:///{path}") as storage:
        service = Service(storage, settings)
        await service.start()
        await service.wait_ready()
        names = tuple(f"f{number}" for number in range(size[1]))
        await service.create(RankerSpec(RANKER, "mgd-dsp", names, precision=options.precision))
        before, rng = used(path), np.random.default_rng(1)
        for _ in range(options.impressions):
            table = rng.random(size).round(6).tolist()
            documents = [Document(f"document-{n}", row) for n, row in enumerate(table)]
            answer = await service.rank(RANKER, RankRequest(documents))
            for place in range(options.clicks):
                event = FeedbackEvent(
                    answer.impression_id, answer.ids[place : place + 1], close=place == options.clicks - 1
                )
                await service.feedback(RANKER, [event])
        for _ in range(5):  # an impression more, a checkpoint more: then the oldest three cover all that came before
            await service.feedback(
                RANKER, [FeedbackEvent((await service.rank(RANKER, RankRequest(documents))).impression_id)]
            )
            await asyncio.sleep(1.5)
        await service.stop()
    return float(used(path) - before - stored_snapshots(path)) / int(options.impressions)


def stored_snapshots(path: Path) -> int:
    """Return the bytes of versions, checkpoints and the history, which do not grow with the number of impressions."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT sum(length(body)) FROM duelrank_snapshots").fetchone()[0])


def versions(n_features: int) -> dict[str, int]:
    """Return the bytes of the state in a version and in a checkpoint, of a ranker with curves that has learned from 200 lists."""
    learner, rng = Learner("curves >> mgd-dsp", n_features=n_features), np.random.default_rng(1)
    for _ in range(200):
        made = learner.rank(Query("", rng.random((20, n_features))))
        learner.learn(made, Feedback(np.arange(10) < 2))
    state = learner.state
    lean = State(state.weights, state.step, state.updates, for_ranking(state.memory, learner.algorithm))
    return {"version": len(pack_state(lean)), "checkpoint": len(pack_state(state))}


def memory(folder: Path, n_rankers: int, size: tuple[int, int]) -> dict[int, list[float]]:
    """Return the megabytes of supervisor, server and learner with one ranker and with some, which have learned from 40 lists."""
    names, rng, found = [f"f{number}" for number in range(size[1])], np.random.default_rng(1), {}
    with service(f"sqlite:///{folder / 'store.db'}", folder, "--rate", "0") as process, Client(process.url) as client:
        for number in range(1, n_rankers + 1):
            client.create_ranker(f"r{number}", "mgd-dsp", names)
            for _ in range(40):
                rows = rng.random(size).tolist()
                answer = client.rank(f"r{number}", {f"d{place}": row for place, row in enumerate(rows)})
                client.feedback(f"r{number}", [FeedbackEvent(answer.impression_id, answer.ids[1:2], close=True)])
            if number in (1, n_rankers):
                time.sleep(3.0)  # until all is learned
                found[number] = process.memory()
    return found


def measure(folder: Path, size: tuple[int, int], options: argparse.Namespace) -> dict[str, Any]:
    """Measure one size of impressions on stores of its own."""
    stages = {"with features": 1e9, "when they are dropped": 0.0}
    kept = {stage: asyncio.run(disk(folder / f"{keep}.db", size, options, keep)) for stage, keep in stages.items()}
    if options.disk:
        return {"bytes per impression": kept}
    with service(f"sqlite:///{folder / 'store.db'}", folder, "--rate", "0") as process:
        names = [f"f{number}" for number in range(size[1])]
        spec = {"name": RANKER, "algorithm": "mgd-dsp", "features": names, "precision": options.precision}
        Caller(process).post("/v1/rankers", json.dumps(spec).encode())
        asked = {form: cpu(process, form, size, options) for _ in range(options.rounds) for form in FORMS}
    return {"bytes per impression": kept, "requests to rank": asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=2000, help="ranked, clicked, closed and learned")
    parser.add_argument("--clicks", type=int, default=1, help="events of feedback on each impression")
    parser.add_argument("--requests", type=int, default=800, help="requests to rank for each form of features")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of requests; the last counts")
    parser.add_argument(
        "--precision", choices=["float32", "float64"], default="float64", help="precision of the ranker"
    )
    parser.add_argument("--versions", action="store_true", help="measure versions and checkpoints only")
    parser.add_argument("--disk", action="store_true", help="measure bytes in the store only")
    parser.add_argument("--rankers", type=int, help="measure the memory of this number of rankers only")
    options = parser.parse_args()
    if options.rankers is not None:
        with tempfile.TemporaryDirectory(prefix="duelrank-disk-") as folder:
            print(json.dumps(memory(Path(folder), options.rankers, (20, 136)), indent=2))
        return
    if options.versions:
        print(json.dumps({n: versions(n) for n in (46, 136, 700)}, indent=2))
        return
    for name, size in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="duelrank-disk-") as folder:
            print(json.dumps({name: measure(Path(folder), size, options)}, indent=2, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
