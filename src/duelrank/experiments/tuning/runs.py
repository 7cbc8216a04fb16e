"""Makes the runs of trials, many trials at a time, and keeps their results in a store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from time import monotonic
from typing import Any

import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidValue
from duelrank.core.progress import ProgressCallback
from duelrank.core.registry import spell
from duelrank.experiments.pipeline import check_data, fingerprints, timed
from duelrank.experiments.results.store import Store
from duelrank.experiments.run import run_all
from duelrank.experiments.run.device import Device
from duelrank.experiments.run.executor import choose
from duelrank.experiments.run.scheduler import Scheduler
from duelrank.experiments.tuning.objective import Cell, Measured, Scores
from duelrank.experiments.tuning.settings import Settings
from duelrank.experiments.tuning.space import variants
from duelrank.simulation import RunSpec

__all__ = ["Runs", "check_engine"]

_log = logging.getLogger(__name__)

_SECONDS = 1.0  # between two writes to the store


class Runs:
    """The finished runs of a search; those that are missing are made on demand.

    Parameters
    ----------
    settings
        Of the search.
    store
        Keeps the rows, so that no run is made twice.
    tell
        Shows progress: called with the number of runs and how many there will be at most.
    workers, scheduler, device
        As in `run_all`.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        tell: ProgressCallback,
        workers: int | None = None,
        scheduler: Scheduler | None = None,
        device: Device = "cpu",
    ) -> None:
        self.settings, self._store, self._tell = settings, store, tell
        self._workers, self._scheduler, self._device = workers, scheduler, device
        # The digest of each spec is needed several times, but only while its batch is made, rung by rung.
        self._specs = lru_cache(maxsize=settings.rungs * (settings.batch + 1))(settings.specs)
        self._data = fingerprints(settings.specs(settings.algorithm))
        self._values: dict[str, tuple[float, float]] = {}
        self._made_on: set[str] = set()
        if store.done():
            frame = store.load()
            check_data(frame, settings.specs(settings.algorithm), self._data, store.folder)
            columns = (frame[name].tolist() for name in ("digest", "online_performance", "offline_performance"))
            self._values = {digest: (online, offline) for digest, online, offline in zip(*columns, strict=True)}
            self._made_on = set(frame["device"].tolist())

    def check_device(self) -> None:
        """Raise an error if runs cannot be made on the device, or those that are there were made on another one."""
        choose(1, self._workers, self._scheduler, self._device)
        if other := self._made_on - {_device_name(self._device)}:
            raise InvalidValue(
                f"the runs in {self._store.folder} were made on {' and '.join(sorted(other))}, not on "
                f"{_device_name(self._device)}, and runs of two devices cannot be compared: go on with the same --device, or "
                "choose another folder (--out)"
            )

    def scores(self, recipe: Algorithm, rung: int | None = None) -> Scores:
        """Return how a recipe compares with the one that the search begins with, over the runs up to a rung."""
        reference = self.measured(self.settings.algorithm, rung)
        return self.settings.objective.scores(self.measured(recipe, rung), reference)

    def make(self, recipes: Sequence[Algorithm], rung: int | None = None, later: int = 0) -> set[Algorithm]:
        """Make what is missing of the runs of recipes up to a rung; return the recipes whose runs fail.

        Runs that were finished before one failed are kept. If runs of several recipes are missing then, these are halved until
        the failing ones are found.

        Parameters
        ----------
        later
            How many further runs may follow, for the progress bar.
        """
        missing = self._missing(recipes, rung)
        if not missing:
            return set()
        self.check_device()
        _check_lockstep(missing, self._device)
        try:
            with timed(self._store):
                self._run(missing, len(self._values) + len(missing) + later)
        except InvalidValue as error:  # such as weights that have grown beyond all numbers
            left = [recipe for recipe in dict.fromkeys(recipes) if self._missing([recipe], rung)]
            if left == [self.settings.algorithm]:
                raise
            if len(left) == 1:
                _log.warning("left out %s: %s", spell(left[0]), error)
                return set(left)
            half = len(left) // 2
            return self.make(left[:half], rung, later) | self.make(left[half:], rung, later)
        return set()

    def _missing(self, recipes: Iterable[Algorithm], rung: int | None) -> list[RunSpec]:
        wanted = {spec.digest: spec for recipe in recipes for spec in self._specs(recipe, rung)}
        return [spec for digest, spec in wanted.items() if digest not in self._values]

    def _run(self, specs: Sequence[RunSpec], total: int) -> None:
        """Make runs; their rows are written once a second, because each write waits for the disk."""
        rows: list[dict[str, Any]] = []
        written = monotonic()
        self._tell(len(self._values), total)
        try:
            for record in run_all(specs, self._workers, self._scheduler, device=self._device):
                rows.append(record.row(data=self._data[record.spec.dataset, record.spec.fold]))
                self._tell(len(self._values) + len(rows), total)
                if monotonic() - written > _SECONDS:
                    self._keep(rows)
                    written = monotonic()
        finally:
            self._keep(rows)

    def _keep(self, rows: list[dict[str, Any]]) -> None:
        self._store.extend(rows)
        self._values.update((row["digest"], (row["online_performance"], row["offline_performance"])) for row in rows)
        rows.clear()

    def measured(self, recipe: Algorithm, rung: int | None = None) -> Measured:
        """Return what the runs of a recipe up to a rung have achieved, cell by cell."""
        found: dict[Cell, list[tuple[float, float]]] = {}
        for spec in self._specs(recipe, rung):
            found.setdefault((spell(spec.dataset), spell(spec.user)), []).append(self._values[spec.digest])
        return {cell: np.array(values) for cell, values in found.items()}


def check_engine(settings: Settings, workers: int | None, scheduler: Scheduler | None, device: Device) -> None:
    """Raise an error if the runs of a search cannot be made as the options say, or not all of them in lockstep."""
    choose(1, workers, scheduler, device)
    recipes = [settings.algorithm, *variants(settings.algorithm, settings.space)]
    _check_lockstep((spec for recipe in recipes for spec in settings.specs(recipe)), device)


def _check_lockstep(specs: Iterable[RunSpec], device: Device) -> None:
    """Raise an error if a run would be made on the CPU instead: its result could not be compared with those of the device."""
    if device == "cpu":
        return
    from duelrank.lockstep import why_not

    for spec in dict.fromkeys(replace(spec, fold=1, seed=1) for spec in specs):
        if reasons := why_not(spec):
            raise InvalidValue(
                f"{spell(spec.algorithm)} with the user {spell(spec.user)} cannot run in lockstep: {reasons[0]}. A search "
                "compares runs of one engine: search without that, or leave --device out"
            )


def _device_name(device: Device) -> str:
    """Return the name of a device as records have it."""
    if device == "cpu":
        return device
    from duelrank.lockstep.engine import device_name

    return device_name()
