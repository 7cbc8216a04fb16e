"""Compares two states of the sources: time per impression in turns, and whether the records are equal to the bit.

Make a copy of an earlier state first: ``git archive COMMIT src | tar -x -C /tmp/before``, then
``python benchmarks/before_after.py /tmp/before/src``. Each state has a process of its own, and one works at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

ALGORITHMS = ["mgd(n_candidates=49)", "mgd-dsp(n_candidates=49)", "wmgd", "wmgd-dsp"]
DATA = ["10x46", "20x46", "40x46", "100x46", "100x136"]
HERE = Path(__file__).resolve().parents[1] / "src"


def serve() -> None:
    """Answer each line of a run with its CPU time per impression in microseconds and a digest of its record."""
    from duelrank import RunSpec, simulate
    from duelrank.simulation import run as loop
    from duelrank.testing import Tiny

    vars(loop)["perf_counter"] = process_time  # what else the machine does counts less
    for line in sys.stdin:
        algorithm, data, impressions = json.loads(line)
        dataset = Tiny(*map(int, data.split("x"))) if data[0].isdigit() else data
        record = simulate(RunSpec(algorithm, dataset, "navigational", impressions=impressions))
        found = (record.online, record.offline, record.update_norms, record.trajectory)
        digest = hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()
        print(json.dumps([1e6 * record.seconds / impressions, digest]), flush=True)


def asker(sources: str) -> Callable[..., Any]:
    """Start a process with these sources; returns what asks it for a run."""
    environment = os.environ | {"PYTHONPATH": sources}
    command = [sys.executable, __file__, "--serve"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert worker.stdin is not None
    assert worker.stdout is not None
    questions, answers = worker.stdin, worker.stdout

    def ask(*run: Any) -> Any:
        print(json.dumps(run), file=questions, flush=True)
        return json.loads(answers.readline())

    return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", help="folder of the earlier sources")
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS)
    parser.add_argument("--data", nargs="+", default=DATA, help="DOCUMENTSxFEATURES, or the name of a data set")
    parser.add_argument("--impressions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.before is None:
        parser.error("name the folder of the earlier sources")
    before, after = asker(options.before), asker(str(HERE))
    print("CPU µs per impression, medians of rounds in turns")
    print(f"{'algorithm':26} {'data':>10} {'before':>8} {'after':>8} {'ratio':>6}  equal records")
    for algorithm in options.algorithms:
        for data in options.data:
            run = (algorithm, data, options.impressions)
            equal = before(*run)[1] == after(*run)[1]  # compiled, and caches warm
            times = [(before(*run)[0], after(*run)[0]) for _ in range(options.rounds)]
            old, new = (median(column) for column in zip(*times, strict=True))
            print(f"{algorithm:26} {data:>10} {old:8.1f} {new:8.1f} {old / new:6.2f}  {equal}", flush=True)


if __name__ == "__main__":
    main()
