"""Defines the executor interface: takes specs and yields records as the runs finish."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from duelrank.core.errors import InvalidValue
from duelrank.core.validation import whole_number
from duelrank.experiments.run.dask import DaskCluster
from duelrank.experiments.run.device import Device, OnDevice, check_device
from duelrank.experiments.run.local import LocalProcesses
from duelrank.experiments.run.scheduler import Scheduler
from duelrank.experiments.run.warmup import named, run_warm
from duelrank.simulation import Record, RunSpec

__all__ = ["Executor", "InProcess", "choose", "run_all", "usable_cpus"]

Progress = Callable[[int, int], None]


class Executor(Protocol):
    """Runs specs; hides processes and machines from the rest of the package."""

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the record of each spec once, in any order; closing the generator stops all runs.

        An exception in one run stops all others and is raised unchanged. If a worker dies, its run is repeated; a run whose
        workers die repeatedly fails after all others have finished.
        """
        ...


class InProcess:
    """Runs specs in this process, one after another."""

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the record of each spec, in order."""
        for spec in specs:
            with named(spec):
                record = run_warm(spec)
            yield record


def run_all(
    specs: Sequence[RunSpec] | RunSpec,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    progress: Progress | None = None,
    device: Device = "cpu",
) -> Iterator[Record]:
    """Run every spec and yield the records in the order in which the runs finish.

    An exception in one run stops all others and is raised here unchanged, with a note that names the run. If a worker dies,
    its run is repeated.

    Parameters
    ----------
    workers
        Number of processes; by default one per usable CPU, and never more than there are specs. With 1, all runs are made in
        this process.
    scheduler
        A Dask cluster, whose workers make the runs instead: the address of its scheduler, such as ``tcp://host:8786``, or
        a ``Client`` or a cluster object (``LocalCluster``, ``SLURMCluster``, …), which stays open.
    progress
        Called with the number of finished runs and the total number of runs.
    device
        "gpu" makes runs in lockstep on an accelerator, thousands at once; a recipe with a part that has no lockstep twin runs on
        the CPU. "lockstep" takes whatever device JAX finds. Needs the extra ``lockstep``.

    Examples
    --------
    >>> from duelrank.experiments import Grid, run_all
    >>> grid = Grid(["mgd"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50)
    >>> records = list(run_all(grid.specs(), workers=1))
    >>> [record.spec.seed for record in records], round(float(records[0].offline[-1]), 2)
    ([1, 1], 0.7)
    """
    specs = [specs] if isinstance(specs, RunSpec) else specs
    if wrong := [each for each in specs if not isinstance(each, RunSpec)]:
        raise InvalidValue(f"expected a list of RunSpec, such as Grid(...).specs(), found {wrong[0]!r} in it")
    tell = progress or (lambda done, total: None)
    executor = choose(len(specs), workers, scheduler, device)
    tell(0, len(specs))
    with closing(executor.run(specs)) as records:
        for done, record in enumerate(records, start=1):
            tell(done, len(specs))
            yield record


def choose(
    n_specs: int, workers: int | None = None, scheduler: Scheduler | None = None, device: Device = "cpu"
) -> Executor:
    """Return the executor for the options."""
    check_device(device)
    if device != "cpu":
        if scheduler is not None:
            raise InvalidValue("device and scheduler exclude each other: lockstep runs on the device of this machine")
        return OnDevice(device, lambda n: choose(n, workers))
    if scheduler is not None:
        if workers is not None:
            raise InvalidValue("workers and scheduler exclude each other: a scheduler has its own workers")
        return DaskCluster(scheduler)
    n_workers = _n_workers(workers, n_specs)
    return InProcess() if n_workers == 1 else LocalProcesses(n_workers)


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _n_workers(wanted: int | None, n_specs: int) -> int:
    most = usable_cpus() if wanted is None else whole_number("workers", wanted)
    return max(1, min(most, n_specs))
