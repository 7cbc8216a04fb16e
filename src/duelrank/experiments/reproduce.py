"""A whole suite: which of its data is here, the runs that are missing, and what they say when all are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from duelrank.datasets import Dataset
from duelrank.errors import InvalidValue, MissingData
from duelrank.experiments.fingerprint import fingerprint
from duelrank.experiments.frame import Frame
from duelrank.experiments.reference import Reference, reference_for
from duelrank.experiments.rows import row
from duelrank.experiments.run import run_all
from duelrank.experiments.store import Store
from duelrank.experiments.suite import Suite
from duelrank.grammar import parse
from duelrank.registry import spell
from duelrank.simulation import RunSpec

__all__ = ["Plan", "collect", "plan"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """A suite, the data sets of it that are installed, and why the others are not used."""

    suite: Suite
    datasets: tuple[Dataset, ...]
    skipped: dict[str, str]

    def specs(self) -> list[RunSpec]:
        """Return all runs of the suite on the installed data sets."""
        return [spec for dataset in self.datasets for spec in self.suite.specs(dataset)]

    def reference(self, dataset: Dataset, fold: int) -> Reference | None:
        """Return the offline reference of a fold where the suite draws it; it is trained on first use."""
        return reference_for(dataset, fold) if self.suite.needs_reference else None

    def skyline(self, dataset: Dataset) -> float | None:
        """Return the mean test metric of the offline references over the folds of a data set that have runs."""
        if not self.suite.needs_reference:
            return None
        folds = range(1, min(dataset.n_folds, self.suite.runs) + 1)
        return float(np.mean([reference_for(dataset, fold).test for fold in folds]))


def plan(
    suite: Suite,
    datasets: Sequence[str] | None = None,
    users: Sequence[str] | None = None,
    algorithms: Sequence[str] | None = None,
    runs: int | None = None,
    impressions: int | None = None,
) -> Plan:
    """Fit a suite to what was asked for and to the data that is here; a data set that is missing is named and skipped."""
    suite = replace(
        suite.only(algorithms) if algorithms else suite,
        datasets=tuple(datasets or suite.datasets),
        users=tuple(users or suite.users),
        runs=suite.runs if runs is None else runs,
        impressions=suite.impressions if impressions is None else impressions,
    )
    found: list[Dataset] = []
    skipped: dict[str, str] = {}
    for name in suite.datasets:
        dataset = parse(name, Dataset)
        try:
            dataset.fold(1)
            found.append(dataset)
        except MissingData as error:
            skipped[name] = str(error)
    if not found:
        raise MissingData("none of the data sets is installed. " + " ".join(skipped.values()))
    return Plan(suite, tuple(dict.fromkeys(found)), skipped)


def collect(
    plan: Plan,
    store: Store,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> Frame:
    """Run what is missing, keep each result as it comes, and return all results of the plan."""
    specs = plan.specs()
    missing = store.missing(specs)
    data = {(spec.dataset, spec.fold): "" for spec in specs}
    data |= {(dataset, fold): fingerprint(dataset.fold(fold)) for dataset, fold in data}
    if len(missing) < len(specs):
        _check_data(store, specs, data)
    references = {(spec.dataset, spec.fold): plan.reference(spec.dataset, spec.fold) for spec in missing}
    done = len(specs) - len(missing)
    if progress:
        progress(done, len(specs))
    for record in run_all(missing, workers, scheduler=scheduler, announce=announce) if missing else ():
        where = record.spec.dataset, record.spec.fold
        reference = references[where]
        store.append(row(record, reference.weights if reference else None, data[where]))
        done += 1
        if progress:
            progress(done, len(specs))
    return select(store.load(), specs)


def _check_data(store: Store, specs: Sequence[RunSpec], data: dict[tuple[Dataset, int], str]) -> None:
    """Raise where a finished run was made on other data than there is now under the same name."""
    wanted = {spec.digest: spec for spec in specs}
    frame = store.load()
    for digest, found in zip(frame["digest"].tolist(), frame["data"].tolist(), strict=True):
        spec = wanted.get(digest)
        if spec is not None and found != data[spec.dataset, spec.fold]:
            raise InvalidValue(
                f"{store.folder} has results on other data: {spell(spec.dataset)} was imported anew since; "
                "choose another folder (--out)"
            )


def select(frame: Frame, specs: Sequence[RunSpec]) -> Frame:
    """Return the results of some specs, in the order of the specs: a folder may also hold other runs of its suite."""
    where = {digest: number for number, digest in enumerate(frame["digest"].tolist())}
    wanted = [where[spec.digest] for spec in specs if spec.digest in where]
    if len(wanted) < len(specs):
        raise InvalidValue(f"{len(specs) - len(wanted)} of {len(specs)} runs are missing from the results")
    return frame.take(np.array(wanted))
