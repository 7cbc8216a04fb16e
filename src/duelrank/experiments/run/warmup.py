"""Compiles the kernels that a run needs, or loads them from disk, before the run is timed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from duelrank.algorithms import Algorithm
from duelrank.core.registry import canonical
from duelrank.simulation import Record, RunSpec, simulate

__all__ = ["named", "run_warm", "warm_up"]

_warm: set[object] = set()


def warm_up(specs: Iterable[RunSpec]) -> None:
    """Compile the kernels of the specs, or load them from disk; the logger ``duelrank.core.compiling`` announces compilations."""
    for spec in specs:
        with named(spec):
            _prepare(spec)


def run_warm(spec: RunSpec, progress: Callable[[int], None] | None = None) -> Record:
    """Run a spec, after its kernels were compiled once in this process; the record is without the learner, which may be large."""
    _prepare(spec)
    return replace(simulate(spec, progress=progress), learner=None)


@contextmanager
def named(spec: RunSpec) -> Iterator[None]:
    """Add the name of the run to any error that is raised here."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the run {spec.id}")
        raise


def _prepare(spec: RunSpec) -> None:
    key = (_without_numbers(spec.algorithm), type(spec.user), type(spec.metric))
    if key not in _warm:
        simulate(replace(spec, impressions=30))
        _warm.add(key)


@lru_cache(maxsize=1024)
def _without_numbers(algorithm: Algorithm) -> str:
    """Return a recipe as text without its numbers, except zeros: recipes that differ only in these call the same kernels."""
    return re.sub(r"\b\d[\d.]*(e[+-]?\d+)?", lambda number: "0" if not float(number[0]) else "1", canonical(algorithm))
