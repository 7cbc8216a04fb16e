"""Runs many specs: in this process, in several processes, on a Dask cluster, or in lockstep on an accelerator."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, Protocol

from duelrank.core.errors import InvalidValue, MissingExtra
from duelrank.core.progress import ProgressCallback
from duelrank.core.registry import spell
from duelrank.core.validation import whole_number
from duelrank.experiments.dask import DaskCluster, Scheduler
from duelrank.experiments.workers import LocalProcesses, named_run, run_warm
from duelrank.simulation import Record, RunSpec

#: The device of runs: "cpu", "gpu" for an accelerator, or "lockstep" for the device that JAX finds, which may be a CPU.
Device = Literal["cpu", "gpu", "lockstep"]

_log = logging.getLogger(__name__)


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
            with named_run(spec):
                record = run_warm(spec)
            yield record


def run_all(
    specs: Sequence[RunSpec] | RunSpec,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    progress: ProgressCallback | None = None,
    device: Device = "cpu",
) -> Iterator[Record]:
    """Run every spec and yield the records in the order in which the runs finish.

    An exception in one run stops all others and is raised here unchanged, with a note that names the run. If a worker dies,
    its run is repeated.

    Parameters
    ----------
    workers
        Number of processes; by default one per usable CPU, and at most one per spec. With 1, all runs are made in
        this process.
    scheduler
        A Dask cluster, whose workers make the runs instead: the address of its scheduler, such as ``tcp://host:8786``, or
        a ``Client`` or a cluster object (``LocalCluster``, ``SLURMCluster``, …), which stays open.
    progress
        Called with the number of finished runs and the total number of runs.
    device
        "gpu" makes runs in lockstep on an accelerator, thousands at once; a recipe with a part that has no lockstep form runs on
        the CPU. "lockstep" uses the device that JAX finds. Needs the extra ``lockstep``.

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


@dataclass(frozen=True)
class OnDevice:
    """Runs specs in lockstep if all of their parts have a lockstep form; the others run on the CPU, and a warning names the reason.

    Parameters
    ----------
    device
        "gpu", which needs an accelerator, or "lockstep".
    others
        Makes the executor for a number of runs that cannot run in lockstep.
    """

    device: Device
    others: Callable[[int], Executor]

    def run(self, specs: Sequence[RunSpec]) -> Generator[Record, None, None]:
        """Yield the records, those made in lockstep first."""
        engine = _engine(self.device)
        why_not = cache(engine.why_not)  # opening a data set takes longer than planning a run on it
        reasons = {spec: why_not(replace(spec, fold=1, seed=1)) for spec in specs}
        for algorithm, reason in {spell(spec.algorithm): why[0] for spec, why in reasons.items() if why}.items():
            _log.warning("%s runs on the CPU: %s", algorithm, reason)
        together = [spec for spec, why in reasons.items() if not why]
        if together:
            yield from engine.Lockstep().run(together)
        if rest := [spec for spec, why in reasons.items() if why]:
            with closing(self.others(len(rest)).run(rest)) as records:
                yield from records


def check_device(device: str) -> None:
    """Raise an error if runs cannot be made on a device, before anything is planned for it."""
    if device not in ("cpu", "gpu", "lockstep"):
        raise InvalidValue(f"device must be cpu, gpu or lockstep, got {device!r}")
    if device != "cpu":
        _engine(device)


def _engine(device: str) -> Any:
    try:
        import jax
    except ImportError:
        raise MissingExtra(
            f"device {device} needs JAX: pip install 'duelrank[lockstep]', and JAX's own plugin for the accelerator"
        ) from None
    from duelrank import lockstep

    if device == "gpu" and jax.default_backend() == "cpu":
        raise InvalidValue(
            "JAX finds no accelerator, only the CPU: install JAX for yours (such as pip install 'jax[cuda13]'), or leave "
            "--device out"
        )
    return lockstep
