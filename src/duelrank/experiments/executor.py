"""Specs in, records out as they finish: one narrow interface, whether runs go to this process, to others, or far away."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from duelrank.errors import InvalidValue
from duelrank.experiments.cluster import Cluster
from duelrank.experiments.pool import Pool
from duelrank.experiments.warming import run_warm
from duelrank.simulation import Record, RunSpec

__all__ = ["Executor", "Here", "choose", "run_all", "usable_cpus"]

Progress = Callable[[int, int], None]


class Executor(Protocol):
    """Runs specs somewhere; all that the rest of the package knows of processes and machines."""

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the record of each spec once, in any order; closing the generator stops what is still running.

        An error in one run stops all others and is raised as itself. A worker that dies is no such error: its run is
        done again, and only a run that keeps killing its workers is given up, after all others are done.
        """
        ...


class Here:
    """Runs in this process, one after another."""

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the record of each spec, in order."""
        yield from map(run_warm, specs)


def run_all(
    specs: Sequence[RunSpec],
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Record]:
    """Run every spec and yield the records in the order in which they finish, which is any.

    An error in one run stops all others and is raised here as itself. A run whose worker dies is done again.

    Parameters
    ----------
    workers
        How many processes; all usable processors by default, and never more than there are specs. One: no new process.
    scheduler
        The address of a Dask scheduler, such as ``tcp://host:8786``: its workers do the runs, instead of processes here.
    progress
        Called with how many runs are done, and how many there are.
    """
    tell = progress or (lambda done, total: None)
    executor = choose(len(specs), workers, scheduler)
    tell(0, len(specs))
    with closing(executor.run(specs)) as records:
        for done, record in enumerate(records, start=1):
            tell(done, len(specs))
            yield record


def choose(n_specs: int, workers: int | None = None, scheduler: str | None = None) -> Executor:
    """Return the executor that the options ask for."""
    if scheduler is not None:
        if workers is not None:
            raise InvalidValue("workers are processes here, and a scheduler has its own; give one of the two")
        return Cluster(scheduler)
    n_workers = _n_workers(workers, n_specs)
    return Here() if n_workers == 1 else Pool(n_workers)


def usable_cpus() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _n_workers(wanted: int | None, n_specs: int) -> int:
    if wanted is not None and wanted < 1:
        raise InvalidValue(f"workers must be a whole number from 1 up, got {wanted}")
    return max(1, min(wanted or usable_cpus(), n_specs))
