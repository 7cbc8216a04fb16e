"""Measures what a client of `duelrank serve` notices of the memory of queries, with a process that learns: its lag and its cost.

The lag: a click on a list of a new query; then the query is ranked again and again, until its memory has an effect. The cost: a
client asks, in turns, a ranker without a memory and one with a memory, for queries that it knows; 20 documents with 46 features.
Nothing here fails for being slow.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from served import Process, service

N_DOCUMENTS, N_FEATURES, KNOWN = 20, 46, 100


def ask(client: HTTPConnection, path: str, body: object) -> dict[str, Any]:
    """Send a request, and return the answer."""
    client.request("POST", f"/v1/rankers{path}", json.dumps(body), {"content-type": "application/json"})
    answer = client.getresponse()
    found: dict[str, Any] = json.load(answer)
    if answer.status >= 400:
        raise SystemExit(f"{answer.status} {found}")
    return found


def documents(number: int = 0) -> list[dict[str, Any]]:
    """Return the documents of a request."""
    rows = np.random.default_rng(number).random((N_DOCUMENTS, N_FEATURES)).round(6).tolist()
    return [{"id": f"d{place}", "features": row} for place, row in enumerate(rows)]


def lag(client: HTTPConnection, number: int) -> float:
    """Return the seconds from a click on a list of a new query to the first list in which it has an effect."""
    asked = {"query": f"query {number}", "documents": documents(), "explain": True}
    shown = ask(client, "/memory/rank", {**asked, "impression_id": f"{number}"})
    ask(
        client, "/memory/feedback", {"impression_id": f"{number}", "clicks": [shown["ranking"][3]["id"]], "close": True}
    )
    began = time.perf_counter()
    while not any("memory" in each for each in ask(client, "/memory/rank", asked)["ranking"]):
        time.sleep(0.01)
    return time.perf_counter() - began


def cost(client: HTTPConnection, rounds: int) -> dict[str, float]:
    """Return the milliseconds of a rank by a ranker without a memory, and the ratio of one with a memory, in turns."""
    times: dict[str, list[float]] = {"plain": [], "memory": []}
    for number in range(rounds):
        asked = {"query": f"query {number % KNOWN}", "documents": documents(number)}
        for name in ("plain", "memory") if number % 2 else ("memory", "plain"):
            began = time.perf_counter()
            ask(client, f"/{name}/rank", asked)
            times[name].append(time.perf_counter() - began)
    plain, memory = (np.quantile(times[name], (0.5, 0.9)) for name in ("plain", "memory"))
    return {
        "rank, ms": 1000 * plain[0],
        "ratio with a memory": memory[0] / plain[0],
        "ratio at 90%": memory[1] / plain[1],
    }


def main() -> None:
    """Measure, and print one line of JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--algorithm", default="thompson-pairs")
    arguments.add_argument("--clicks", type=int, default=30)
    arguments.add_argument("--ranks", type=int, default=3000)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, service(f"sqlite:///{folder}/lag.db", Path(folder)) as target:
        client = connected(target)
        for name, recipe in (("plain", given.algorithm), ("memory", f"remember >> {given.algorithm}")):
            ask(client, "", {"name": name, "algorithm": recipe, "features": [f"f{n}" for n in range(N_FEATURES)]})
        for number in range(KNOWN):  # also compiles
            shown = ask(client, "/memory/rank", {"query": f"query {number}", "documents": documents()})
            click = [shown["ranking"][0]["id"]]
            ask(client, "/memory/feedback", {"impression_id": shown["impression_id"], "clicks": click, "close": True})
        lag(client, KNOWN)
        times = [lag(client, KNOWN + 1 + number) for number in range(given.clicks)]
        found = {"lag, s": np.median(times), "lag at 90%": np.quantile(times, 0.9), "largest": max(times)}
        found |= cost(client, given.ranks)
    print(json.dumps({name: round(float(value), 3) for name, value in found.items()}))


def connected(target: Process) -> HTTPConnection:
    """Return a connection that is kept."""
    return HTTPConnection("127.0.0.1", target.port, timeout=60)


if __name__ == "__main__":
    main()
