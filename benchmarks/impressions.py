"""Measures the time per impression: the total, the share of compiled kernels, and the ratio to a naive implementation.

One impression is the whole loop: draw a query, rank, simulate the user, learn, measure the list. Timings are noisy, so all
algorithms run in turn in each round, and the table has medians: ``python benchmarks/impressions.py mgd mgd-dsp --rounds 5``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np

from duelrank import Dataset, RunSpec, simulate
from duelrank.datasets import Fold, Split

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the references of the kernels are in tests/

ALGORITHMS = ["dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "mgd(n_candidates=49)", "nsgd", "nsgd-dsp"]
#: (documents per query, features): the small queries of MQ2008, and the sizes of LETOR, MSLR and Yahoo!.
SIZES = ((20, 40), (100, 46), (100, 136), (100, 700))
#: Modules whose kernels stay compiled in the naive implementation: random draws, and the readers of data sets.
COMPILED_ANYWAY = {"random", "datasets"}


@dataclass(frozen=True, repr=False)
class Queries(Dataset):
    """Twelve queries of one size whose grades, 0 to 2, are a linear function of the features."""

    n_documents: int
    n_features: int

    @property
    def n_folds(self) -> int:
        """There is one fold."""
        return 1

    def fold(self, number: int = 1) -> Fold:
        """Return training, validation and test queries."""
        return Fold(self._split(0), self._split(1), self._split(2), n_grades=3)

    def _split(self, seed: int) -> Split:
        n = 12 * self.n_documents
        features = np.random.default_rng(seed).random((n, self.n_features))
        scores = features @ np.resize([1.0, -1.0], self.n_features)
        labels = np.digitize(scores, np.quantile(scores, (0.6, 0.85))).astype(np.int8)
        return Split(features, labels, np.arange(0, n + 1, self.n_documents), np.array([b"q%d" % i for i in range(12)]))


def total(spec: RunSpec) -> float:
    """Return microseconds per impression."""
    return simulate(spec).seconds * 1e6 / spec.impressions


def share_of_kernels(spec: RunSpec) -> float:
    """Return the share of a run that is spent inside compiled calls, including argument passing.

    Both times are of one run, so that a slower machine affects both. The time of the clock itself is subtracted.
    """
    from tests.swap import swapped

    calls: dict[str, list[int]] = {}
    with swapped(lambda module, name, kernel: timed(kernel, calls.setdefault(name, []))):
        whole = total(spec) * 1e3 * spec.impressions
    calls.pop("ranked_labels", None)  # only used to evaluate the weights at checkpoints
    n_calls = sum(map(len, calls.values()))
    return sum(map(sum, calls.values())) / (whole - n_calls * cost_of_timing())


def timed(kernel: Callable[..., Any], spent: list[int]) -> Callable[..., Any]:
    """Return a function that calls a kernel and notes the nanoseconds of each call."""

    def call(*arguments: Any) -> Any:
        started = perf_counter_ns()
        result = kernel(*arguments)
        spent.append(perf_counter_ns() - started)
        return result

    return call


def cost_of_timing(n: int = 2000) -> float:
    """Return the nanoseconds that timing adds to a call and does not count."""
    spent: list[int] = []
    bare, watched = abs, timed(abs, spent)
    started = perf_counter_ns()
    for _ in range(n):
        bare(1)
    between = perf_counter_ns()
    for _ in range(n):
        watched(1)
    return (perf_counter_ns() - between - sum(spent) - (between - started)) / n


def naive(spec: RunSpec) -> float:
    """Return microseconds per impression with the slow references in place of the kernels."""
    from tests.swap import reference, swapped

    short = RunSpec(spec.algorithm, spec.dataset, spec.user, impressions=min(50, spec.impressions))
    with swapped(lambda module, name, kernel: kernel if module in COMPILED_ANYWAY else reference(module, name)):
        return median(total(short) for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("algorithms", nargs="*", default=ALGORITHMS)
    parser.add_argument("--rounds", type=int, default=7, help="every algorithm runs once in each")
    parser.add_argument("--impressions", type=int, default=300, help="per round")
    options = parser.parse_args()
    print("| documents | features | algorithm | total, µs | kernels, µs | Python, µs | naive |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for size in SIZES:
        data = Queries(*size)
        specs = [RunSpec(name, data, "navigational", impressions=options.impressions) for name in options.algorithms]
        for spec in specs:
            simulate(spec)  # compiled, and caches warm
        rounds = [[(total(spec), share_of_kernels(spec)) for spec in specs] for _ in range(options.rounds)]
        for name, spec, sample in zip(options.algorithms, specs, zip(*rounds, strict=True), strict=True):
            whole, share = (median(column) for column in zip(*sample, strict=True))
            times = f"{whole:.1f} | {share * whole:.1f} | {(1 - share) * whole:.1f} ({1 - share:.0%})"
            print(f"| {size[0]} | {size[1]} | `{name}` | {times} | {naive(spec) / whole:.1f} × |", flush=True)


if __name__ == "__main__":
    main()
