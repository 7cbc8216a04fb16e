"""Measures the time to load the results of many runs: rows as a suite of 10,000 impressions writes them."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from duelrank import Algorithm, RunSpec, Synthetic, parse, simulate
from duelrank.experiments import Store, load_results
from duelrank.users import User


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    record = simulate(RunSpec(parse("mgd-dsp", Algorithm), Synthetic(), parse("perfect", User), impressions=10_000))
    one = record.row(record.weights)
    with tempfile.TemporaryDirectory() as folder:
        Store(folder, "benchmark").close()
        lines = (json.dumps({**one, "digest": f"{number:010x}"}) for number in range(options.rows))
        Path(folder, "runs.jsonl").write_text("\n".join(lines) + "\n")
        times = []
        for _ in range(5):
            started = perf_counter()
            assert len(load_results(folder, "benchmark")) == options.rows
            times.append(perf_counter() - started)
    result = {"rows": options.rows, "checkpoints": len(one["checkpoints"]), "load_seconds": median(times)}
    print(
        json.dumps(result) if options.json else "\n".join(f"{name:14} {value:9.2f}" for name, value in result.items())
    )


if __name__ == "__main__":
    main()
