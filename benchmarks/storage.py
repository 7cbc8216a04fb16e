"""How many events a store takes and gives back per second, and how its size behaves under endless traffic."""

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


def events(count: int) -> list[NewEvent]:
    return [NewEvent("shop", "ranked", f"event-{next(_names):012}", 0.0, os.urandom(BODY)) for _ in range(count)]


def rate(count: int, work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return count / (perf_counter() - started)


def appending(store: Storage, threads: int, seconds: float, batch: int = 1) -> float:
    """Events per second from some threads, each of which waits for its batch before it sends the next."""

    def client(_: int) -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            store.append(events(batch))
            count += batch
        return count

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(client, range(threads))) / seconds


def awaiting(store: Storage, clients: int, seconds: float) -> float:
    """Events per second from some coroutines of one event loop."""

    async def client() -> int:
        count, end = 0, perf_counter() + seconds
        while perf_counter() < end:
            await asyncio.wrap_future(store.submit(events(1)))
            count += 1
        return count

    async def main() -> int:
        return sum(await asyncio.gather(*(client() for _ in range(clients))))

    return asyncio.run(main()) / seconds


def finding(store: Storage, keys: list[str]) -> None:
    for key in keys:
        assert store.find("shop", "ranked", key) is not None


def growth(store: Storage, path: Path, cycles: int) -> list[int]:
    """Megabytes after each cycle of 2,000 events of which all but 200 are pruned, and 4,000 keys remembered."""
    sizes = []
    for _ in range(cycles):
        for _ in range(8):
            store.append(events(250))
        last = store.last_number()
        store.save_snapshot("shop", last, 0.0, bytes(10_000))
        store.prune_snapshots("shop", keep=3)
        store.prune("shop", last - 200, forget=max(0, last - 4000))
        sizes.append(path.stat().st_size)
    return sizes


def measure(store: Storage, seconds: float) -> dict[str, float]:
    result = {f"append, {n} threads": appending(store, n, seconds) for n in (1, 32)}
    result |= {f"append, {n} coroutines": awaiting(store, n, seconds) for n in (1, 32, 256)}
    result["append, 1 thread, batches of 100"] = appending(store, 1, seconds, batch=100)
    keys = [event.key for event in store.read(limit=5000)]
    result["read, 1,000 at a time"] = rate(
        5000, lambda: [store.read(after=i, limit=1000) for i in range(0, 5000, 1000)]
    )
    result["find by key"] = rate(len(keys), lambda: finding(store, keys))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="such as postgresql://…; a new SQLite file by default")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        with open_storage(options.store or f"sqlite:///{path}") as store:
            result: dict[str, object] = {**measure(store, options.seconds)}
        if not options.store:
            with open_storage(f"sqlite:///{folder}/growth.db") as store:
                result["size after each cycle"] = growth(store, Path(folder, "growth.db"), 12)
    print(json.dumps(result) if options.json else "\n".join(f"{name:34} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
