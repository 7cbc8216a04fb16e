"""Measures the memory of queries: bytes per document, time to save and restore it, and what it adds to a rank.

Fills a memory with queries and documents, then measures, all in this process: its size, that of its snapshot, the seconds to save
and to restore it, those of a restart of a service with it, and the processor time of a rank without a query, with an unknown one,
and with remembered ones, as a ratio to that of the same algorithm without a memory, in turns. Nothing here fails for being slow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from duelrank.algorithms.remembered import Remember, Remembrance, document_keys
from duelrank.core.types import Memory
from duelrank.service import Service
from duelrank.service.http import create_app, decoding
from duelrank.service.http.auth import KeyRing
from duelrank.service.http.schema import RankerSpec
from duelrank.service.http.server import SWITCH
from duelrank.service.machine import Machine, with_remembered
from duelrank.service.rankers import MemoryStore
from duelrank.storage import open_storage
from request_cost import ask

N_FEATURES, BLOCK, AT_ONCE = 46, 160, 16


def filled(remember: Remember, n_queries: int, n_documents: int) -> Memory:
    """Return a full memory; texts of queries have about 15 letters and ids of documents 9."""
    memory, rng = remember.start(), np.random.default_rng(1)
    for number in range(n_queries):
        ids = [f"sku{sku:06d}" for sku in rng.choice(1_000_000, n_documents, replace=False)]
        counts = np.array([rng.random(n_documents), 1.0 + rng.random(n_documents)])
        model = Remembrance(document_keys(ids), counts, [f"query {number:09d}", *ids]).packed()
        memory = remember.table.write(memory, f"query {number:09d}", model, 1, number)
    return {**memory, "lists": np.array([n_queries]), "rate": np.array([0.3 * n_queries, float(n_queries)])}


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def restore(url: str, remember: Remember) -> tuple[float, int]:
    """Return how long it takes to restore a memory, and the bytes that this process holds afterwards and did not before."""
    remember.table.merged(remember.start(), remember.table.records(filled(remember, 10, 2)))  # compiles
    with open_storage(url) as storage:
        before = psutil.Process().memory_info().rss
        began = time.perf_counter()
        memory, _ = MemoryStore(storage, remember, "shop").load()
        assert remember.table.n_bytes(memory) > 0
        return time.perf_counter() - began, psutil.Process().memory_info().rss - before


async def measured_ranks(url: str, memory: Memory, base: str, recipe: str, rounds: int) -> dict[str, float]:
    """Return the ratios of the processor time of a rank to that of a ranker without a memory, and that time in microseconds.

    The requests have 20 documents with 46 features, in JSON, 16 of them at the same time: without a query, with an unknown one, and
    with remembered ones.
    """
    with open_storage(url) as storage:
        service = Service(storage)
        app = create_app(service, KeyRing(storage))
        await service.start()
        await service.wait_ready()
        for name, algorithm in (("plain", base), ("shop", recipe)):
            await service.create(RankerSpec(name, algorithm, tuple(f"f{n}" for n in range(N_FEATURES))))
        while (machine := service._rankers["shop"].machine) is None:  # the learner of this process
            await asyncio.sleep(0.01)
        machine.state = with_remembered(machine.state, {**machine.remembered, **memory})
        decoding.array_reader.prepare()
        gc.freeze()
        sys.setswitchinterval(SWITCH)
        await measured_round(app, machine, -1)  # compiles
        found = [await measured_round(app, machine, number) for number in range(rounds)]
        await service.stop()
        stopped = time.perf_counter()
        service = Service(storage)
        await service.start()
        await service.wait_ready()
        restarted = time.perf_counter() - stopped
        known = service.memory("shop", limit=1).queries
        await service.stop()
    times = {kind: np.array([each[kind] for each in found]) for kind in found[0]}
    plain = times.pop("plain")
    ratios = {kind: round(float(np.median(each / plain)), 3) for kind, each in times.items()}
    return {
        "plain, µs": round(1e6 * float(np.median(plain)), 1),
        **ratios,
        f"restart with {known:,}, s": round(restarted, 2),
    }


async def measured_round(app: Any, machine: Machine, number: int) -> dict[str, float]:
    """Return the seconds of a rank of each kind, in a new order in each round."""
    rng, remember, times = np.random.default_rng(number + 1), machine.definition.remember, dict[str, float]()
    assert remember is not None
    for kind in rng.permutation(["plain", "no query", "unknown query", "known query"]).tolist():
        bodies = []
        for place in range(BLOCK):
            query = f"query {rng.integers(remember.queries):09d}"
            ids = Remembrance.unpacked(remember.table.read(machine.remembered, query)[0]).names[1:21]
            rows = rng.random((len(ids), N_FEATURES)).round(6).tolist()
            body: dict[str, Any] = {
                "documents": [{"id": id, "features": row} for id, row in zip(ids, rows, strict=True)]
            }
            body["impression_id"] = f"{kind}-{number}-{place}"
            if kind in ("unknown query", "known query"):
                body["query"] = query if kind == "known query" else f"{query} nobody asked"
            bodies.append(json.dumps(body).encode())
        left, began = iter(bodies), time.process_time()
        path = f"/v1/rankers/{'plain' if kind == 'plain' else 'shop'}/rank"
        await asyncio.gather(*(ask_all(app, path, left) for _ in range(AT_ONCE)))
        times[kind] = (time.process_time() - began) / BLOCK
    return times


async def ask_all(app: Any, path: str, bodies: Iterator[bytes]) -> None:
    """Ask for lists, one after the other."""
    for body in bodies:
        await ask(app, path, body)


def main() -> None:
    """Measure, and print one line of JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--queries", type=int, default=100_000)
    arguments.add_argument("--documents", type=int, default=20)
    arguments.add_argument("--rounds", type=int, default=41)
    arguments.add_argument("--algorithm", default="mgd-dsp")
    given = arguments.parse_args()
    remember = Remember(queries=given.queries, documents=given.documents)
    memory = filled(remember, given.queries, given.documents)
    entries = given.queries * given.documents
    found: dict[str, object] = {
        "entries": entries,
        "bytes per entry": round(remember.table.n_bytes(memory) / entries, 1),
    }
    with tempfile.TemporaryDirectory() as folder, open_storage(f"sqlite:///{folder}/memory.db") as storage:
        store = MemoryStore(storage, remember, "shop")
        found["save all, s"] = round(seconds(lambda: store.save_all(memory, 1, 0.0)), 2)
        found["stored MB"] = round((Path(folder) / "memory.db").stat().st_size / 1e6, 1)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            restored, resident = pool.submit(restore, f"sqlite:///{folder}/memory.db", remember).result()
        found["restore, s"], found["resident bytes per entry"] = round(restored, 2), round(resident / entries, 1)
    with tempfile.TemporaryDirectory() as folder:
        recipe = f"remember(queries={given.queries}, documents={given.documents}) >> {given.algorithm}"
        ranks = measured_ranks(f"sqlite:///{folder}/ranks.db", memory, given.algorithm, recipe, given.rounds)
        found["rank"] = asyncio.run(ranks)
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
