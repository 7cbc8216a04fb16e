"""Measures events written and read per second by a store, the time of retention, and the growth of its size."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

from duelrank.storage import NewEvent, Storage, open_storage

BODY = 1000
_names = itertools.count()


def events(count: int, attached: bool = False) -> list[NewEvent]:
    """Return events of 1,000 bytes, which are the body or an attachment."""
    made = []
    for _ in range(count):
        data = os.urandom(BODY)
        key = f"event-{next(_names):012}"
        made.append(NewEvent("shop", "ranked", key, 0.0, b"" if attached else data, data if attached else None))
    return made


def rate(count: int, work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return count / (perf_counter() - started)


def appending(store: Storage, threads: int, seconds: float, batch: int = 1, attached: bool = False) -> float:
    """Events per second from some threads, each of which waits for its batch before it sends the next."""

    def client(_: int) -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            store.log.append(events(batch, attached))
            count += batch
        return count

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(client, range(threads))) / seconds


def awaiting(store: Storage, clients: int, seconds: float) -> float:
    """Events per second from some coroutines of one event loop."""

    async def client() -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            await asyncio.wrap_future(store.log.submit(events(1)))
            count += 1
        return count

    async def main() -> int:
        return sum(await asyncio.gather(*(client() for _ in range(clients))))

    return asyncio.run(main()) / seconds


def finding(store: Storage, keys: list[str], at_once: int) -> None:
    for start in range(0, len(keys), at_once):
        some = keys[start : start + at_once]
        assert len(store.log.find("shop", "ranked", some)) == len(some)


def cleaning(store: Storage, remembered: int) -> dict[str, float]:
    """Milliseconds that a retention run takes where there is nothing to clean, and 1,000 events to clean, among many."""
    log, time = store.log, 0.0
    for _ in range(0, remembered, 1000):
        log.append([NewEvent("long", "ranked", f"{time}-{i}", time, b"x" * 50) for i in range(1000)])
        time += 1.0
    store.snapshots.save("long", "checkpoint", log.last_number(), 0.0, b"")

    def run(until: float) -> float:
        started = perf_counter()
        log.drop_attachments("long", log.number_before("long", time))
        log.delete("long", log.number_before("long", until))
        return 1000 * (perf_counter() - started)

    result = {"the first run": run(0.0), "nothing to clean": run(0.0), "1,000 events to clean": run(1.0)}
    return {f"cleaning among {remembered:,}, {name}, ms": value for name, value in result.items()}


def growth(store: Storage, path: Path, cycles: int) -> list[int]:
    """Bytes after each cycle of 2,000 events of which all but 200 lose their attachments, and 4,000 are remembered."""
    sizes = []
    for _ in range(cycles):
        for _ in range(8):
            store.log.append(events(250, attached=True))
        last = store.log.last_number()
        store.snapshots.save("shop", "checkpoint", last, 0.0, bytes(10_000))
        store.snapshots.prune("shop", "checkpoint", keep=3)
        store.log.drop_attachments("shop", last - 200)
        store.log.delete("shop", max(0, last - 4000))
        sizes.append(path.stat().st_size)
    return sizes


def measure(store: Storage, seconds: float) -> dict[str, float]:
    log = store.log
    result = {f"append, {n} threads": appending(store, n, seconds) for n in (1, 32)}
    result |= {f"append, {n} coroutines": awaiting(store, n, seconds) for n in (1, 32, 256)}
    result["append, 1 thread, batches of 100"] = appending(store, 1, seconds, batch=100)
    result["append, batches of 100, attached"] = appending(store, 1, seconds, batch=100, attached=True)
    keys = [event.key for event in log.read(limit=10_000)]
    result["read, 1,000 at a time"] = rate(5000, lambda: [log.read(after=i, limit=1000) for i in range(0, 5000, 1000)])
    result["find by key, one at a time"] = rate(len(keys), lambda: finding(store, keys, 1))
    result["find by key, 10,000 at a time"] = rate(len(keys), lambda: finding(store, keys, 10_000))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="such as postgresql://…; a new SQLite file by default")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--remembered", type=int, default=100_000, help="events among which is cleaned up")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        with open_storage(options.store or f"sqlite:///{path}") as store:
            result: dict[str, object] = {**measure(store, options.seconds), **cleaning(store, options.remembered)}
        if not options.store:
            with open_storage(f"sqlite:///{folder}/growth.db") as store:
                result["size after each cycle"] = growth(store, Path(folder, "growth.db"), 12)
    print(json.dumps(result) if options.json else "\n".join(f"{name:58} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
