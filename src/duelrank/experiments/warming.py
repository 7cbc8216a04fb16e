"""One run in this process, with its kernels compiled before the clock starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from duelrank.simulation import Record, RunSpec, simulate

__all__ = ["run_warm", "warm_up"]

_warm: set[object] = set()


def warm_up(specs: Iterable[RunSpec]) -> None:
    """Compile, or load from disk, the kernels of the specs: no run is timed with it, no two workers do it at once."""
    for spec in specs:
        key = (spec.algorithm, type(spec.user), type(spec.metric))
        if key not in _warm:
            simulate(replace(spec, impressions=30))
            _warm.add(key)


def run_warm(spec: RunSpec, progress: Callable[[int], None] | None = None) -> Record:
    """Run a spec, after what it needs was compiled once in this process."""
    warm_up([spec])
    return simulate(spec, progress=progress)
