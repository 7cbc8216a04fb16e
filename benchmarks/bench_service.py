"""Measures the speed of the service, relative to a bare endpoint: SQLite, 20 documents of 46 features, learning on.

Rank throughput is compared with a bare endpoint of the same framework that decodes the same body with the same decoder and
answers a list; both are asked by the same load generator, in turns. Nothing here fails for being slow.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from duelrank.client import Client
from load import N_FEATURES
from log_filling import fill
from served import Process, bare, load, service

RANKER, ALGORITHM = "shop", "mgd-dsp"


@dataclass(frozen=True)
class Row:
    """A line of the table: the measure, its value and its target."""

    what: str
    value: str
    wanted: str = ""


def create(target: Process, name: str = RANKER) -> None:
    with Client(target.url) as client:
        client.create_ranker(name, ALGORITHM, [f"f{number}" for number in range(1, N_FEATURES + 1)])


def checked(result: dict[str, Any]) -> dict[str, Any]:
    if result["errors"]:
        raise SystemExit(f"{result['errors']} requests failed: {result['problems']}")
    return result


def middle(found: list[dict[str, Any]], what: str) -> float:
    return float(median(each[what] for each in found))


def throughput(floor: Process, target: Process, seconds: float, rounds: int) -> tuple[list[Row], float]:
    """Ask the bare endpoint and the service in turns; return the rows and the requests per second with learning."""
    kinds: dict[str, tuple[Process, list[str]]] = {
        "bare": (floor, ["--path", "/bare"]),
        "barest": (floor, ["--path", "/barest"]),
        "rank": (target, []),
        "learn": (target, ["--learn"]),
    }
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, (process, options) in kinds.items():
            found[kind].append(checked(load(process, "--seconds", seconds, "--ranker", RANKER, *options)))

    def ratio(kind: str, other: str) -> str:
        """Compare within each round: what disturbs one disturbs its neighbours."""
        return f"{median(a['rate'] / b['rate'] for a, b in zip(found[kind], found[other], strict=True)):.0%}"

    def cost(kind: str) -> str:
        return f"{median(1e6 * each['computed'] / each['requests'] for each in found[kind]):.0f} µs"

    busiest = max(each["busy"] for several in found.values() for each in several)
    rows = [
        Row("bare Starlette endpoint, requests/s", f"{middle(found['bare'], 'rate'):,.0f}"),
        Row("the same as plain ASGI, requests/s", f"{middle(found['barest'], 'rate'):,.0f}"),
        Row("rank, requests/s", f"{middle(found['rank'], 'rate'):,.0f}"),
        Row("rank / bare Starlette", ratio("rank", "bare"), "at least 45%"),
        Row("rank / plain ASGI", ratio("rank", "barest")),
        Row("rank while all lists are clicked and learned, requests/s", f"{middle(found['learn'], 'rate'):,.0f}"),
        Row("the same / bare Starlette", ratio("learn", "bare")),
        Row("processor time of a request: bare Starlette, all threads", cost("bare")),
        Row("of a rank", cost("rank")),
        Row("of a rank that is clicked and learned, with its feedback", cost("learn")),
        Row(
            "the load generator's core was busy for at most",
            f"{busiest:.0%}",
        ),
    ]
    return rows, middle(found["learn"], "rate")


def latency(floor: Process, target: Process, seconds: float, rounds: int, most: float) -> list[Row]:
    """Ask at half of the most that the service can do; the bare endpoint at the same rate shows how quiet the machine is."""
    rate = ["--seconds", seconds, "--rate", most / 2]
    quiet, asked = [], []
    for _ in range(rounds):
        quiet.append(checked(load(floor, *rate, "--path", "/bare")))
        asked.append(checked(load(target, *rate, "--learn", "--ranker", RANKER)))
    return [
        Row(f"rank at {most / 2:,.0f} requests/s and as many clicks, p50", f"{middle(asked, 'p50'):.1f} ms"),
        Row("the same, p99", f"{middle(asked, 'p99'):.1f} ms", "at most 10 ms"),
        Row("bare Starlette endpoint at the same rate, p99", f"{middle(quiet, 'p99'):.1f} ms"),
    ]


def feedback(target: Process, seconds: float) -> list[Row]:
    """Send batches of 100 events for lists made before, each of which closes one; then wait until all are learned."""
    before = learned(target)
    result = checked(load(target, "--seconds", seconds, "--feedback", "--ranker", RANKER))["feedback"]
    checked(result)
    began = time.perf_counter()
    while learned(target) < before + result["events"]:
        time.sleep(0.05)
    taken = result["seconds"] + time.perf_counter() - began
    return [
        Row("feedback in batches of 100, events/s", f"{result['events'] / result['seconds']:,.0f}", "at least 3,000"),
        Row("the same until all is learned, events/s", f"{result['events'] / taken:,.0f}"),
    ]


def learned(target: Process) -> int:
    count: int = target.get(f"/v1/rankers/{RANKER}")["learned"]
    return count


def restart(folder: Path, events: int) -> list[Row]:
    """Start on a store with many events and a recent snapshot."""
    store = f"sqlite:///{folder}/long.db"
    began = time.perf_counter()
    fill(store, RANKER, ALGORITHM, events)
    filled = time.perf_counter() - began
    target = service(store, folder)
    first = target.start(patience=3600)
    target.stop()
    second = target.start()
    target.kill()
    third = target.start()
    target.stop()
    return [
        Row(f"a log of {events:,} events is filled in", f"{filled:.0f} s"),
        Row("ready without any snapshot of it, after", f"{first:.1f} s"),
        Row("ready with a recent snapshot, after", f"{second:.2f} s", "under 5 s"),
        Row("ready after kill -9, after", f"{third:.2f} s"),
    ]


def memory(target: Process, minutes: float, rate: float) -> list[Row]:
    """Measure the memory of the process under a steady load; it is flat if the last third is not above the middle one."""
    sizes = []
    step = max(5.0, minutes * 60 / 30)
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        checked(load(target, "--seconds", step, "--rate", rate, "--learn", "--ranker", RANKER))
        sizes.append(sum(target.memory()))
    third = len(sizes) // 3
    parts = [median(part) for part in (sizes[: third or 1], sizes[third : 2 * third] or sizes, sizes[2 * third :])]
    text = " → ".join(f"{part:.0f}" for part in parts)
    return [Row(f"memory over {minutes:g} minutes at {rate:,.0f} requests/s, by thirds", f"{text} MB", "flat")]


def measure(folder: Path, options: argparse.Namespace) -> list[Row]:
    rows, served = [], ("--learner", options.learner)
    with bare(folder) as floor, service(f"sqlite:///{folder}/store.db", folder, *served) as target:
        create(target)
        more, most = throughput(floor, target, options.seconds, options.rounds)
        rows += more
        rows += latency(floor, target, options.seconds, options.rounds, most)
        rows += feedback(target, options.seconds)
        sizes = " + ".join(f"{size:.0f}" for size in target.memory())
        rows.append(Row("memory after all this, of each process", f"{sizes} MB"))
        if options.minutes:
            rows += memory(target, options.minutes, most / 2)
    return rows + (restart(folder, options.events) if options.events else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which bare endpoint and service alternate")
    parser.add_argument("--events", type=int, default=1_000_000, help="events in the log of the restart; 0 skips it")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="minutes of steady traffic, to check that memory stays flat"
    )
    parser.add_argument("--learner", choices=["process", "inline"], default="process", help="as in duelrank serve")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duelrank-bench-") as folder:
        rows = measure(Path(folder), options)
    if options.json:
        print(json.dumps({row.what: row.value for row in rows}))
    else:
        print("\n".join(f"{row.what:62} {row.value:>16}  {row.wanted}".rstrip() for row in rows))


if __name__ == "__main__":
    main()
