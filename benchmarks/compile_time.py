"""How long the kernels take to compile: the first run ever of the six algorithms, against the same run from the cache."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from time import perf_counter

RUN = """
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


def seconds(cache: str) -> float:
    """Run everything once in a fresh process."""
    started = perf_counter()
    subprocess.run([sys.executable, "-c", RUN], env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
    return perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = seconds(cache), seconds(cache)
    result = {"cold_seconds": cold, "warm_seconds": warm, "compile_seconds": cold - warm}
    print(
        json.dumps(result) if options.json else "\n".join(f"{name:16} {value:6.1f}" for name, value in result.items())
    )


if __name__ == "__main__":
    main()
