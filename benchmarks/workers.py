"""Measures `duelrank serve --workers` 1 and 2 on PostgreSQL, in turns, and whose processor time limits them.

Needs two empty stores on one server of this machine, such as two schemas: ``python benchmarks/workers.py URL OTHER_URL``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from statistics import median

import psutil

from bench_service import RANKER, checked, create
from served import Process, load, service


def database_seconds() -> float:
    """Return the processor time of all PostgreSQL processes of this machine."""
    found = [each.info for each in psutil.process_iter(["name", "cpu_times"])]
    times = [each["cpu_times"] for each in found if each["name"] == "postgres" and each["cpu_times"] is not None]
    return float(sum(each.user + each.system + each.children_user + each.children_system for each in times))


def once(target: Process, seconds: float, options: list[str]) -> dict[str, float]:
    before = database_seconds()
    found = checked(load(target, "--seconds", seconds, "--ranker", RANKER, *options))
    count = found["requests"]
    database = 1e6 * (database_seconds() - before) / count
    cost = {"service": 1e6 * found["computed"] / count, "database": database}
    return {name: found[name] for name in ("rate", "p50", "p99", "busy")} | cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duelrank-bench-") as folder:
        logs = [Path(folder, each) for each in "12"]
        for each in logs:
            each.mkdir()
        with (
            service(options.stores[0], logs[0], "--workers", "1") as one,
            service(options.stores[1], logs[1], "--workers", "2") as two,
        ):
            for target in (one, two):
                create(target)
                once(target, 1.0, ["--learn"])
            for kind in ([], ["--learn"]):
                rows = [[once(target, options.seconds, kind) for target in (one, two)] for _ in range(options.rounds)]
                for place, workers in enumerate((1, 2)):
                    found = {name: median(row[place][name] for row in rows) for name in rows[0][place]}
                    print(
                        f"{workers} workers, {'rank and click' if kind else 'rank'}: {found['rate']:,.0f} requests/s, "
                        f"p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms; processor time of one: service "
                        f"{found['service']:.0f} µs, database {found['database']:.0f} µs; generator busy {found['busy']:.0%}"
                    )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
