"""Measures the first answer of a new installation: `duelrank serve` with an empty kernel cache, a new ranker, one list.

To compare two sources, run it in turns: ``PYTHONPATH=/tmp/before/src python benchmarks/first_answer.py``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from duelrank.client import Client
from served import Process, service

DOCUMENTS = [{"id": str(number), "features": [number * 0.1, 0.5, 1.0 - number * 0.1]} for number in range(5)]


def ask(target: Process) -> tuple[float, float]:
    """Create a ranker and rank once; return the seconds of each."""
    with Client(target.url, timeout=600.0) as client:
        began = time.perf_counter()
        client.create_ranker("shop", "mgd-dsp", ["a", "b", "c"])
        created = time.perf_counter()
        client.rank("shop", DOCUMENTS)
        return created - began, time.perf_counter() - created


def measure(folder: Path) -> None:
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
    target = service(f"sqlite:///{folder}/store.db", folder)
    ready = target.start()
    try:
        create, rank = ask(target)
        computed = target.computed()
    finally:
        target.kill()
    total = ready + create + rank
    print(
        f"ready {ready:.1f} s, ranker created {create:.1f} s, first list {rank:.2f} s: {total:.1f} s in all, "
        f"{computed:.1f} s of processor time of all processes until then, load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    for _ in range(parser.parse_args().rounds):
        with tempfile.TemporaryDirectory(prefix="duelrank-bench-") as folder:
            measure(Path(folder))


if __name__ == "__main__":
    main()
