"""Measures the CPU seconds of a start: importing, the README's first lines, and the six algorithms, cold and from the cache."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

FIRST_LINES = """
import numpy as np
from duelrank import Feedback, Learner, Query
learner = Learner("mgd-dsp", n_features=3, seed=7)
impression = learner.rank(Query("running shoes", np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.5], [0.4, 0.3, 1.0]])))
learner.learn(impression, Feedback(clicks=[False, True, False]))
"""
ALGORITHMS = """
import tempfile
from pathlib import Path
from duelrank import RunSpec, parse, simulate
from duelrank.datasets import read_letor
for name in ("dbgd", "mgd", "nsgd", "dbgd-dsp", "mgd-dsp", "nsgd-dsp", "mgd-dsp(basis='svd')"):
    simulate(RunSpec(parse(name), parse("synthetic(n_queries=20)"), parse("navigational"), impressions=100))
with tempfile.TemporaryDirectory() as folder:
    text = Path(folder, "train.txt")
    text.write_text("1 qid:1 1:0.5 2:1e-3\\n0 qid:1 1:0.25\\n")
    read_letor(text)
"""


def cpu_seconds(code: str, cache: str) -> float:
    """Run code in a fresh process, and return the time that all processors spent on it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(code: str, cache: str, times: int = 5) -> float:
    """Return the least of some measurements: whatever else the machine does can only add."""
    return min(cpu_seconds(code, cache) for _ in range(times))


def cold_and_warm(name: str, code: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        return {f"{name}, cold": cpu_seconds(code, cache), f"{name}, cached": best(code, cache)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        result = {f"import {name}": best(f"import {name}", cache) for name in ("duelrank", "numpy", "numba")}
        result["import all public names"] = best("from duelrank import *", cache)
    result |= cold_and_warm("README's first lines", FIRST_LINES) | cold_and_warm("six algorithms", ALGORITHMS)
    print(
        json.dumps(result) if options.json else "\n".join(f"{name:32} {value:6.2f}" for name, value in result.items())
    )


if __name__ == "__main__":
    main()
