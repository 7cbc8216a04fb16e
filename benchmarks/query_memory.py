"""Measures the memory of queries: bytes per document, time to save and restore it, and what it adds to a rank.

Fills a memory with queries and documents, then measures, all in this process: its size, that of its snapshot, the seconds to save
and to restore it, and the processor time of a rank without a query, with an unknown one, and with a remembered one. Nothing here
fails for being slow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from duelrank.algorithms.remembered import Remember, Remembrance, document_keys
from duelrank.core.types import Memory
from duelrank.service import Service
from duelrank.service.http.schema import Document, RankerSpec, RankRequest
from duelrank.service.machine import with_remembered
from duelrank.service.rankers import MemoryStore
from duelrank.storage import open_storage


def filled(remember: Remember, n_queries: int, n_documents: int) -> Memory:
    """Return a full memory; texts of queries have about 15 letters and ids of documents 9."""
    memory, rng = remember.start(), np.random.default_rng(1)
    for number in range(n_queries):
        ids = [f"sku{sku:06d}" for sku in rng.integers(1_000_000, size=n_documents)]
        counts = np.array([rng.random(n_documents), 1.0 + rng.random(n_documents)])
        model = Remembrance(document_keys(ids), counts, [f"query {number:09d}", *ids]).packed()
        memory = remember.table.write(memory, f"query {number:09d}", model, 1, number)
    return {**memory, "lists": np.array([n_queries]), "rate": np.array([0.3 * n_queries, float(n_queries)])}


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


async def measured_ranks(url: str, memory: Memory, algorithm: str, rounds: int) -> dict[str, float]:
    """Return the microseconds of a rank of 20 documents with 46 features: without a query, with an unknown and a known one."""
    rng = np.random.default_rng(2)
    with open_storage(url) as storage:
        service = Service(storage)
        await service.start()
        await service.wait_ready()
        await service.create(RankerSpec("shop", algorithm, tuple(f"f{n}" for n in range(46))))
        while (machine := service._rankers["shop"].machine) is None:  # the learner of this process
            await asyncio.sleep(0.01)
        machine.state = with_remembered(machine.state, {**machine.remembered, **memory})
        remember = machine.definition.remember
        assert remember is not None
        known = Remembrance.unpacked(remember.table.read(memory, "query 000000007")[0]).names[1:]
        documents = [Document(id, row) for id, row in zip(known, rng.random((len(known), 46)).tolist(), strict=True)]
        kinds = {"none": None, "unknown": "nobody asked", "known": "query 000000007"}
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(rounds):
            for kind, query in kinds.items():
                request = RankRequest(documents, query=query, impression_id=f"{number}-{kind}")
                began = time.process_time()
                await service.rank("shop", request)
                times[kind].append(time.process_time() - began)
        await service.stop()
    return {kind: round(1e6 * median(found), 1) for kind, found in times.items()}


def main() -> None:
    """Measure, and print one line of JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--queries", type=int, default=100_000)
    arguments.add_argument("--documents", type=int, default=20)
    arguments.add_argument("--rounds", type=int, default=1000)
    given = arguments.parse_args()
    remember = Remember(queries=given.queries, documents=given.documents)
    before = psutil.Process().memory_info().rss
    memory = filled(remember, given.queries, given.documents)
    entries, resident = given.queries * given.documents, psutil.Process().memory_info().rss - before
    found: dict[str, object] = {
        "entries": entries,
        "bytes per entry": round(remember.table.n_bytes(memory) / entries, 1),
        "resident bytes per entry": round(resident / entries, 1),
    }
    with tempfile.TemporaryDirectory() as folder, open_storage(f"sqlite:///{folder}/memory.db") as storage:
        store = MemoryStore(storage, remember, "shop")
        found["save all, s"] = round(seconds(lambda: store.save_all(memory, 1, 0.0)), 2)
        found["stored MB"] = round((Path(folder) / "memory.db").stat().st_size / 1e6, 1)
        found["restore, s"] = round(seconds(store.load), 2)
    with tempfile.TemporaryDirectory() as folder:
        recipe = f"remember(queries={given.queries}, documents={given.documents}) >> mgd-dsp"
        ranks = measured_ranks(f"sqlite:///{folder}/ranks.db", memory, recipe, given.rounds)
        found["rank, µs of processor time, by query"] = asyncio.run(ranks)
    print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()
