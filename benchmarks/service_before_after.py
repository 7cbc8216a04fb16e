"""Compares the service of two source trees: both run at the same time, and are asked in turns with the bare endpoint.

Rank, rank with every list clicked and learned, the same at a given rate, and a small ranker beside a heavy one (see `fairness.py`).
Prints medians over rounds, and the ratio to the bare endpoint in the same round; of the small ranker all answers together.

    git archive COMMIT src | tar -x -C /tmp/before
    python benchmarks/service_before_after.py /tmp/before/src src
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench_service import RANKER, checked
from bench_service import create as create_shop
from fairness import SMALL, create, measure
from load import N_FEATURES
from served import Process, bare, load, service

WIDTH = 136  # features of the heavy ranker


def start(stack: ExitStack, source: str, folder: Path) -> Process:
    folder.mkdir()
    os.environ["PYTHONPATH"] = str(Path(source).absolute())
    target = stack.enter_context(service(f"sqlite:///{folder}/store.db", folder))
    create_shop(target)
    create(target, "small", SMALL[1])
    create(target, "heavy", WIDTH)
    load(target, "--seconds", 1, "--ranker", RANKER, "--learn")  # compile and warm up
    asyncio.run(measure(target, 1, 1.0, False, WIDTH))
    return target


def in_turns(targets: dict[str, Process], number: int) -> Iterator[tuple[str, Process]]:
    yield from list(targets.items())[:: 1 if number % 2 == 0 else -1]


def loads(targets: dict[str, Process], floor: Process, options: argparse.Namespace) -> None:
    """Print requests per second, processor time and latency."""
    rate = ["--rate", options.rate]
    kinds = {"rank": [], "learn": ["--learn"], f"at {options.rate:g}/s": ["--learn", *rate]}
    for kind, more in kinds.items():
        found = defaultdict[str, list[dict[str, Any]]](list)
        for number in range(options.rounds):
            seconds = ["--seconds", options.seconds]
            paced = rate if rate[0] in more else []
            found["bare"].append(checked(load(floor, *seconds, "--path", "/bare", *paced)))
            for name, target in in_turns(targets, number):
                found[name].append(checked(load(target, *seconds, "--ranker", RANKER, *more)))
        for name, each in found.items():
            share = median(one["rate"] / base["rate"] for one, base in zip(each, found["bare"], strict=True))
            cost = median(1e6 * one["computed"] / one["requests"] for one in each)
            p50, p99 = (median(one[what] for one in each) for what in ("p50", "p99"))
            rates = f"{median(one['rate'] for one in each):8,.0f} requests/s  {share:6.1%}  {cost:5.0f} µs"
            print(f"{kind:12} {name:8} {rates}  p50 {p50:5.2f}  p99 {p99:6.2f} ms")


def fairness(targets: dict[str, Process], options: argparse.Namespace) -> None:
    """Print the latency of a small ranker, alone and beside heavy clients."""
    for kind, clients, compact in (("alone", 0, False), ("JSON", 4, False), ("compact", 4, True)):
        found = defaultdict[str, list[float]](list)
        for number in range(options.rounds):
            for name, target in in_turns(targets, number):
                found[name] += asyncio.run(measure(target, clients, options.seconds, compact, WIDTH))[0]
        for name, times in found.items():
            p50, p90, p99 = (1000 * float(np.percentile(times, q)) for q in (50, 90, 99))
            print(f"small, {kind:8} {name:8} {len(times):6} answers  p50 {p50:5.2f}  p90 {p90:5.2f}  p99 {p99:6.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="folder with the package duelrank")
    parser.add_argument("after")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=1300.0, help="requests per second of the third kind of load")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duelrank-bench-") as folder, ExitStack() as stack:
        floor = stack.enter_context(bare(Path(folder)))
        sources = {"before": options.before, "after": options.after}
        targets = {name: start(stack, source, Path(folder, name)) for name, source in sources.items()}
        print(f"load {os.getloadavg()[0]:.1f}; rank requests have {N_FEATURES} features")
        loads(targets, floor, options)
        fairness(targets, options)


if __name__ == "__main__":
    main()
