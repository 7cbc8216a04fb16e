"""Measures the speed-up of a second worker: the same suite with 1 and with 2 processes, storing and evaluation included."""

from __future__ import annotations

import argparse
import json
import tempfile
from statistics import median
from time import perf_counter

from duelrank.experiments import Store, load_suite
from duelrank.experiments.pipeline import Plan, collect, plan


def seconds(wanted: Plan, workers: int) -> float:
    """Run a whole plan into an empty store."""
    with tempfile.TemporaryDirectory() as folder, Store(folder, wanted.suite.name) as store:
        started = perf_counter()
        collect(wanted, store, workers)
        return perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="synthetic", help="separated by commas")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--impressions", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = plan(load_suite("quick"), options.datasets.split(","), runs=options.runs, impressions=options.impressions)
    collect(plan(load_suite("quick"), runs=1, impressions=30), Store(tempfile.mkdtemp(), "quick"), 1)  # compiled
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for workers, taken in times.items():
            taken.append(seconds(wanted, workers))
    one, two = median(times[1]), median(times[2])
    result = {"runs": len(wanted.specs()), "one_worker": one, "two_workers": two, "speedup": one / two}
    print(
        json.dumps(result) if options.json else "\n".join(f"{name:12} {value:8.2f}" for name, value in result.items())
    )


if __name__ == "__main__":
    main()
