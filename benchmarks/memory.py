"""Measures the memory of a run on a large data set: about 1 GB of features, mapped, in a fresh process."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from duelrank.datasets.cache import Meta, SplitSize, write_split
from duelrank.datasets.reader import Block

N_FEATURES, N_DOCUMENTS = 136, 100  # as in MSLR, about

# Impressions enough for nearly every query to have been shown, so nearly every page to have been read.
LOOP = """
import resource
from duelrank import RunSpec, parse, simulate
from duelrank.datasets import Imported
data = Imported(name="large", drop_constant=False, scale="none", drop_irrelevant_test=False)
train = data.fold(1).train
at_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
simulate(RunSpec(parse("mgd-dsp"), data, parse("navigational"), impressions=4 * len(train)))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(at_start * 1024, peak * 1024, train.features.nbytes)
"""


def blocks(n_queries: int) -> Iterator[Block]:
    random = np.random.default_rng(0)
    labels = (np.arange(N_DOCUMENTS) % 5).astype(np.int8)
    for query in range(n_queries):
        yield Block(random.random((N_DOCUMENTS, N_FEATURES)), labels, [(0, b"q%d" % query)], N_FEATURES)


def make(home: Path, gigabytes: float) -> None:
    """Write a raw cache of random numbers, as an import would."""
    n_queries = max(1, int(gigabytes * 1e9 / (8 * N_FEATURES * N_DOCUMENTS)))
    raw = home / "datasets" / "large" / "raw"
    sizes: dict[str, SplitSize] = {
        split: write_split(raw / "fold1", split, blocks(n_queries if split == "train" else 1)).size
        for split in ("train", "validation", "test")
    }
    Meta("large", "0", N_FEATURES, 5, {1: sizes}).write(raw)


def measure(gigabytes: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as home:
        make(Path(home), gigabytes)
        environment = {**os.environ, "DUELRANK_HOME": home}
        done = subprocess.run([sys.executable, "-c", LOOP], env=environment, capture_output=True, text=True, check=True)
    start, peak, features = map(int, done.stdout.split())
    return {"features_gb": features / 1e9, "start_gb": start / 1e9, "peak_gb": peak / 1e9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the features")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.gigabytes)
    if options.json:
        print(json.dumps(result))
        return
    print(f"features        {result['features_gb']:.2f} GB")
    print(f"before the run  {result['start_gb']:.2f} GB resident")
    print(f"peak            {result['peak_gb']:.2f} GB resident")


if __name__ == "__main__":
    main()
