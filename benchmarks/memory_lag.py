"""Measures how long a click takes to change the next list of its query, in `duelrank serve` with a process that learns.

A click on a list of a new query; then the query is ranked again and again, until its memory has an effect. Prints the median, the
90th percentile and the largest of the seconds in between. Nothing here fails for being slow.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from served import Process, service


def ask(target: Process, path: str, body: object) -> dict[str, list[dict[str, object]]]:
    """Send a request, and return the answer."""
    request = urllib.request.Request(target.url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, list[dict[str, object]]] = json.load(answer)
        return found


def lag(target: Process, number: int) -> float:
    """Return the seconds from a click on a list of a new query to the first list in which it has an effect."""
    documents = [{"id": f"d{place}", "features": [place, 1.0]} for place in range(10)]
    asked = {"query": f"query {number}", "documents": documents, "explain": True}
    shown = ask(target, "/v1/rankers/shop/rank", {**asked, "impression_id": f"{number}"})
    click = {"impression_id": f"{number}", "clicks": [shown["ranking"][3]["id"]], "close": True}
    ask(target, "/v1/rankers/shop/feedback", click)
    began = time.perf_counter()
    while not any("memory" in each for each in ask(target, "/v1/rankers/shop/rank", asked)["ranking"]):
        time.sleep(0.01)
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print one line of JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--clicks", type=int, default=30)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, service(f"sqlite:///{folder}/lag.db", Path(folder)) as target:
        ask(target, "/v1/rankers", {"name": "shop", "algorithm": "remember >> wmgd-dsp", "features": ["a", "b"]})
        lag(target, -1)  # compiles
        times = [lag(target, number) for number in range(given.clicks)]
    found = {"median": np.median(times), "90%": np.quantile(times, 0.9), "largest": max(times)}
    print(json.dumps({name: round(float(value), 2) for name, value in found.items()}))


if __name__ == "__main__":
    main()
