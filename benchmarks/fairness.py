"""Measures the latency of a small ranker while other clients use a heavy one.

p50 and p99 of requests with 10 documents of 20 features, alone and with four clients that rank 1,000 documents of many features
as fast as answers come. Nothing here fails for being slow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from load import Connection, Target
from served import Process, service

SMALL, N_HEAVY = (10, 20), 1000


def body(shape: tuple[int, int], compact: bool) -> bytes:
    features = np.random.default_rng(1).random(shape).round(6)
    ids = [f"d{number}" for number in range(shape[0])]
    if compact:
        import msgspec

        return msgspec.json.encode({"documents": {"ids": ids, "features": features.astype("<f4").tobytes()}})
    documents = [{"id": id, "features": row} for id, row in zip(ids, features.tolist(), strict=True)]
    return json.dumps({"documents": documents}, separators=(",", ":")).encode()


def create(target: Process, name: str, n_features: int) -> None:
    import httpx

    spec = {"name": name, "algorithm": "mgd-dsp", "features": [f"f{number}" for number in range(n_features)]}
    httpx.post(f"{target.url}/v1/rankers", json=spec, timeout=120).raise_for_status()


async def ask(connection: Connection, request: bytes, end: float, pause: float) -> list[float]:
    """Ask again and again until the end; return how long each answer took."""
    times = []
    while time.perf_counter() < end:
        began = time.perf_counter()
        status, answer = await connection.ask(request)
        if status != 200:
            raise SystemExit(f"{status} {answer[:300]!r}")
        times.append(time.perf_counter() - began)
        await asyncio.sleep(pause)
    return times


async def measure(
    target: Process, clients: int, seconds: float, compact: bool, n_features: int
) -> tuple[list[float], list[float]]:
    """Return the times of the small ranker and of the heavy one."""
    place = Target(target.url)
    requests = {}
    for name, shape in (("small", SMALL), ("heavy", (N_HEAVY, n_features))):
        content = body(shape, compact and name == "heavy")
        requests[name] = place.head(f"/v1/rankers/{name}/rank", len(content)) + content
    end = time.perf_counter() + seconds
    heavy = [ask(await place.connect(), requests["heavy"], end, 0.0) for _ in range(clients)]
    small, *others = await asyncio.gather(ask(await place.connect(), requests["small"], end, 0.01), *heavy)
    return small, [each for several in others for each in several]


def report(what: str, times: list[float]) -> None:
    if times:
        p50, p99, most = (1000 * float(np.percentile(times, q)) for q in (50, 99, 100))
        print(f"{what:<44} {len(times):>6} answers  p50 {p50:8.1f} ms  p99 {p99:8.1f} ms  max {most:8.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=4, help="number of clients of the heavy ranker")
    parser.add_argument("--features", type=int, default=800, help="number of features of the heavy ranker")
    options = parser.parse_args()
    width = options.features
    with tempfile.TemporaryDirectory() as folder:
        target = service(f"sqlite:///{folder}/fairness.db", Path(folder))
        with target:
            create(target, "small", SMALL[1])
            create(target, "heavy", width)
            asyncio.run(measure(target, 1, 1.0, False, width))  # compile and warm up
            report("small ranker, alone", asyncio.run(measure(target, 0, options.seconds / 2, False, width))[0])
            for compact in (False, True):
                form = "compact body" if compact else "JSON"
                small, heavy = asyncio.run(measure(target, options.clients, options.seconds, compact, width))
                report(f"small ranker, with {options.clients} heavy clients, {form}", small)
                report(f"heavy ranker, {form}", heavy)


if __name__ == "__main__":
    main()
