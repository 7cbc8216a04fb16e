"""Warm-up: compiles the kernels that a run needs, or loads them from disk, before the run is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from duelrank.registry import spell
from duelrank.simulation import Record, RunSpec, simulate

__all__ = ["Announce", "named", "run_warm", "warm_up"]

Announce = Callable[[str], None]

_warm: set[object] = set()


def warm_up(specs: Iterable[RunSpec], announce: Announce | None = None) -> None:
    """Compile the kernels of the specs, or load them from disk.

    Parameters
    ----------
    specs
        The runs to prepare for.
    announce
        Called with a sentence for each recipe that makes numba compile something, and not when all is on disk already.
    """
    for spec in specs:
        with named(spec):
            _prepare(spec, announce)


def run_warm(spec: RunSpec, progress: Callable[[int], None] | None = None, announce: Announce | None = None) -> Record:
    """Run a spec, after its kernels were compiled once in this process."""
    _prepare(spec, announce)
    return simulate(spec, progress=progress)


@contextmanager
def named(spec: RunSpec) -> Iterator[None]:
    """Add the name of the run to any error that is raised here."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the run {spec.id}")
        raise


def _prepare(spec: RunSpec, announce: Announce | None) -> None:
    key = (spec.algorithm, type(spec.user), type(spec.metric))
    if key not in _warm:
        with _announced(spec, announce):
            simulate(replace(spec, impressions=30))
        _warm.add(key)


@contextmanager
def _announced(spec: RunSpec, announce: Announce | None) -> Iterator[None]:
    """Announce the first compilation that happens here, if there is any: kernels that are on disk are only loaded."""
    from numba.core.event import Event, Listener, install_listener

    first = [spec.algorithm]

    class _FirstCompilation(Listener):
        def on_start(self, event: Event) -> None:
            if announce is not None and first:
                announce(f"compiling the kernels of {spell(first.pop())}; later runs load them from disk")

        def on_end(self, event: Event) -> None:
            pass

    with install_listener("numba:compile", _FirstCompilation()):
        yield
