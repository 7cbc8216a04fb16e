"""Measures the time per impression, the share spent outside kernels, and the speed-up over a naive implementation.

Timings are noisy: all algorithms run in turn in each round, and the medians are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any

from duelrank.algorithms import Algorithm
from duelrank.core.grammar import parse
from duelrank.simulation import RunSpec, simulate
from duelrank.testing.swap import swapped, twin
from duelrank.testing.tiny import Tiny
from duelrank.users import User

__all__ = ["SIZES", "Timing", "benchmark"]

#: (documents per query, features): web search, in the sizes of LETOR, MSLR and Yahoo!, and the small queries of MQ2008.
SIZES: tuple[tuple[int, int], ...] = ((20, 40), (100, 46), (100, 136), (100, 700))


@dataclass(frozen=True)
class Timing:
    """Median times of one algorithm at one size, in microseconds per impression."""

    algorithm: str
    n_documents: int
    n_features: int
    total: float
    kernels: float
    naive: float

    @property
    def outside(self) -> float:
        """Time spent in Python, around the kernels."""
        return self.total - self.kernels

    @property
    def speedup(self) -> float:
        """Time of the same algorithm with the slow NumPy twins, relative to the total time."""
        return self.naive / self.total


def benchmark(
    algorithms: Sequence[str],
    sizes: Sequence[tuple[int, int]] = SIZES,
    rounds: int = 7,
    impressions: int = 300,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Timing]:
    """Time the whole loop (rank, click, learn, evaluate the list) of each algorithm, for each size."""
    for done, (n_documents, n_features) in enumerate(sizes):
        specs = [_spec(name, n_documents, n_features, impressions) for name in algorithms]
        for spec in specs:
            simulate(spec)  # compiled, and caches warm
        samples: list[list[tuple[float, float]]] = [[] for _ in specs]
        for turn in range(rounds):
            for sample, spec in zip(samples, specs, strict=True):
                sample.append((_total(spec), _share_of_kernels(spec)))
            if progress is not None:
                progress(done * rounds + turn + 1, len(sizes) * rounds)
        for name, sample, spec in zip(algorithms, samples, specs, strict=True):
            total, share = (median(column) for column in zip(*sample, strict=True))
            yield Timing(name, n_documents, n_features, total, share * total, _naive(spec))


def _spec(name: str, n_documents: int, n_features: int, impressions: int) -> RunSpec:
    data = Tiny(n_documents=n_documents, n_features=n_features)
    return RunSpec(parse(name, Algorithm), data, parse("navigational", User), impressions=impressions)


def _total(spec: RunSpec) -> float:
    return simulate(spec).seconds * 1e6 / spec.impressions


def _share_of_kernels(spec: RunSpec) -> float:
    """Return the share of a run that is spent inside compiled calls, including argument passing.

    Both times are of one run, so that a slower machine affects both. The time of the clock itself is subtracted.
    """
    calls: dict[str, list[int]] = {}
    with swapped(lambda module, name, kernel: _timed(kernel, calls.setdefault(name, []))):
        total = _total(spec) * 1e3 * spec.impressions
    calls.pop("ranked_labels", None)  # only used to evaluate the weights at checkpoints
    n_calls = sum(map(len, calls.values()))
    return sum(map(sum, calls.values())) / (total - n_calls * _cost_of_timing())


def _timed(kernel: Callable[..., Any], spent: list[int]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        started = perf_counter_ns()
        result = kernel(*arguments)
        spent.append(perf_counter_ns() - started)
        return result

    return call


def _cost_of_timing(n: int = 2000) -> float:
    """Return the nanoseconds that timing adds to a call and does not count."""
    spent: list[int] = []
    bare, timed = abs, _timed(abs, spent)
    started = perf_counter_ns()
    for _ in range(n):
        bare(1)
    between = perf_counter_ns()
    for _ in range(n):
        timed(1)
    return (perf_counter_ns() - between - sum(spent) - (between - started)) / n


def _naive(spec: RunSpec) -> float:
    """Time the same loop with the slow twins; random draws stay compiled, like NumPy's own."""
    short = RunSpec(spec.algorithm, spec.dataset, spec.user, impressions=min(50, spec.impressions))
    with naive_kernels():
        return median(_total(short) for _ in range(3))


@contextmanager
def naive_kernels() -> Iterator[None]:
    """Replace all kernels except the random draws by their slow twins within the block."""
    with swapped(lambda module, name, kernel: kernel if module in COMPILED_ANYWAY else twin(module, name)):
        yield


#: Draws, whose twins are an exercise in integer arithmetic, and the reader of data sets, which no loop calls.
COMPILED_ANYWAY = frozenset({"random", "decimal", "letor", "preparation"})
