"""Measures what an impression costs: bytes in the store and milliseconds of CPU, for small and for large lists.

A real `duelrank serve` on SQLite with a short retention ranks, gets a click for each impression and learns, for as long as it takes
to be in a steady state: each round adds impressions, then waits until old ones were cleaned up. Bytes per impression are the growth
of the store's files in the last rounds, with those that are still retained. CPU is that of the whole process, for requests to
rank alone, once with features as JSON numbers and once in each compact form that the service takes.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import itertools
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from full_load import OUTCOMES
from served import Process, service

SIZES = {"10 × 20": (10, 20), "100 × 136": (100, 136)}
RANKER, VARIANTS, BATCH = "shop", 16, 50
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
        rng, self.form = np.random.default_rng(1), form
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
        body = {"impression_id": f"{self.form}-{number:09}", "documents": self.documents[number % VARIANTS]}
        return msgspec.msgpack.encode(body) if self.kind == MESSAGEPACK else msgspec.json.encode(body)


FORMS = ("JSON, numbers", "JSON, base64 of float32", "MessagePack, numbers", "MessagePack, float32")


def cpu(caller: Caller, form: str, size: tuple[int, int], requests: int) -> dict[str, Any]:
    """Return the milliseconds of CPU per request to rank, and the bytes of one; or why the form is not taken."""
    made, path = Requests(form, *size), f"/v1/rankers/{RANKER}/rank"
    try:
        for body in itertools.islice(made.bodies, 20):
            caller.post(path, body, made.kind)
    except Refused as refused:
        return {"not taken": str(refused)}
    bodies = list(itertools.islice(made.bodies, requests))
    before, began = caller.process.computed(), time.perf_counter()
    for body in bodies:
        caller.post(path, body, made.kind)
    used, took = caller.process.computed() - before, time.perf_counter() - began
    return {"CPU, ms": 1000 * used / requests, "answer, ms": 1000 * took / requests, "bytes": len(bodies[0])}


def idle(process: Process, seconds: float) -> float:
    """Return the CPU per second of a process that nobody asks anything."""
    before = process.computed()
    time.sleep(seconds)
    return (process.computed() - before) / seconds


def visit(caller: Caller, made: Requests, impressions: int) -> None:
    """Rank, click and close."""
    for start in range(0, impressions, BATCH):
        events = []
        for body in itertools.islice(made.bodies, min(BATCH, impressions - start)):
            answer = caller.post(f"/v1/rankers/{RANKER}/rank", body, made.kind)
            id, clicked = answer["impression_id"], answer["ranking"][start % 3]["id"]
            events.append({"event_id": f"e-{id}", "impression_id": id, "clicks": [clicked], "close": True})
        caller.post(f"/v1/rankers/{RANKER}/feedback", json.dumps(events).encode())


def settled(process: Process, patience: float = 60.0) -> None:
    """Wait until everything is learned and published."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        info = process.get(f"/v1/rankers/{RANKER}")
        if sum(info.get(name, 0) for name in OUTCOMES) == info["impressions"] and not info["open"]:
            return
        time.sleep(0.1)
    raise SystemExit(f"not all was learned after {patience:.0f} s: {info}")


def used(path: Path) -> int:
    """Return the bytes of the pages that hold something; the file itself does not shrink, its free pages are used again."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        one = {
            name: database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        }
    return int((one["page_count"] - one["freelist_count"]) * one["page_size"])


def disk(caller: Caller, path: Path, made: Requests, options: argparse.Namespace) -> dict[str, float]:
    """Return the bytes per impression that are used while impressions are retained, and after they were cleaned up."""
    before = used(path)
    visit(caller, made, options.impressions)
    settled(caller.process)
    retained = used(path) - before
    least, end = retained, time.monotonic() + options.cleaning
    while time.monotonic() < end:
        time.sleep(1.0)
        least = min(least, used(path) - before)
    files = sum(each.stat().st_size for each in path.parent.glob(path.name + "*"))
    n = options.impressions
    return {"retained": retained / n, "cleaned up": least / n, "file": files / n}


def measure(folder: Path, size: tuple[int, int], options: argparse.Namespace) -> dict[str, Any]:
    """Measure one size of lists on a store of its own."""
    path = folder / "store.db"
    with service(f"sqlite:///{path}", folder, "--rate", "0", "--retention", options.retention) as process:
        names = [f"f{number}" for number in range(size[1])]
        spec: dict[str, Any] = {"name": RANKER, "algorithm": "mgd-dsp", "features": names, "close_after": 86_400.0}
        if options.precision:
            spec["precision"] = options.precision
        caller = Caller(process)
        caller.post("/v1/rankers", json.dumps(spec).encode())
        return {
            "bytes per impression": disk(caller, path, Requests(FORMS[0], *size), options),
            "requests to rank": {form: cpu(Caller(process), form, size, options.requests) for form in FORMS},
            "CPU per second, idle": idle(process, 3.0),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=2000, help="ranked, clicked, closed and learned")
    parser.add_argument("--requests", type=int, default=500, help="requests to rank for each form of features")
    parser.add_argument("--retention", default="1s", help="as of duelrank serve")
    parser.add_argument("--cleaning", type=float, default=70.0, help="seconds in which retention is sure to have run")
    parser.add_argument("--precision", choices=["float32", "float64"], help="of the ranker; its default unless given")
    options = parser.parse_args()
    for name, size in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="duelrank-disk-") as folder:
            print(json.dumps({name: measure(Path(folder), size, options)}, indent=2, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
