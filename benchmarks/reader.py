"""Compares the speed of the LETOR reader with scikit-learn's `load_svmlight_file` on the same file, in turns."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from duelrank.datasets import read_letor


def write_synthetic(path: Path, n_rows: int, n_features: int) -> None:
    random = np.random.default_rng(0)
    with path.open("w") as file:
        for row in range(n_rows):
            values = " ".join(f"{i}:{value:.6f}" for i, value in enumerate(random.random(n_features), start=1))
            file.write(f"{row % 3} qid:{row // 40} {values} #docid = {row}\n")


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(path: Path, rounds: int) -> dict[str, Any]:
    def ours() -> Any:
        return read_letor(path)

    def theirs() -> Any:
        return load_svmlight_file(str(path), query_id=True, zero_based=False)

    table, labels, _ = theirs()
    split = ours()  # also loads the compiled code
    if not np.array_equal(split.features, table.toarray()) or not np.array_equal(split.labels, labels):
        raise SystemExit("the two readers disagree")
    times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    size = path.stat().st_size
    return {
        "megabytes": size / 1e6,
        "documents": split.n_documents,
        "features": split.n_features,
        "rounds": rounds,
        "duelrank_s": mine,
        "sklearn_s": other,
        "duelrank_mb_per_s": size / 1e6 / mine,
        "sklearn_mb_per_s": size / 1e6 / other,
        "ratio": other / mine,
        "lowest_ratio": min(b / a for a, b in times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, help="a LETOR text file; a synthetic one by default")
    parser.add_argument("--rows", type=int, default=40_000, help="rows of the synthetic file")
    parser.add_argument("--features", type=int, default=46, help="features of the synthetic file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.path or Path(folder) / "synthetic.txt"
        if options.path is None:
            write_synthetic(path, options.rows, options.features)
        result = measure(path, options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    print(f"{result['megabytes']:.1f} MB, {result['documents']:,} documents, {result['features']} features")
    print(f"duelrank      {result['duelrank_s']:.3f} s  {result['duelrank_mb_per_s']:7.1f} MB/s")
    print(f"scikit-learn  {result['sklearn_s']:.3f} s  {result['sklearn_mb_per_s']:7.1f} MB/s")
    print(f"ratio         {result['ratio']:.1f} (median of {result['rounds']}; lowest {result['lowest_ratio']:.1f})")


if __name__ == "__main__":
    main()
