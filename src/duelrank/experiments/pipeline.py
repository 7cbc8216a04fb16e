"""Runs a suite of experiments: plans it, makes the missing runs, stores the rows, and makes tables, figures and a report.

`compare` and `reproduce` are its two entry points.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from duelrank.algorithms import Algorithm
from duelrank.core.errors import InvalidValue, MissingData
from duelrank.core.grammar import as_part, listed, parse
from duelrank.core.progress import ProgressCallback, count_bar, spinner
from duelrank.core.registry import P, spell, spelling_once
from duelrank.core.validation import explained
from duelrank.datasets import Dataset
from duelrank.drawing import figure_class
from duelrank.experiments.dask import Scheduler
from duelrank.experiments.executors import Device, run_all
from duelrank.experiments.reference import Reference, reference_for
from duelrank.experiments.report import Report
from duelrank.experiments.results import Frame, Store, fingerprint, provenance
from duelrank.experiments.suite import Curves, Study, Suite, Tables, load_suite
from duelrank.experiments.summary import mean_curves
from duelrank.experiments.tables import Table
from duelrank.metrics import Metric
from duelrank.simulation import RunSpec
from duelrank.users import User

_log = logging.getLogger(__name__)

USERS = ("perfect", "navigational", "informational")


@dataclass(frozen=True)
class Plan:
    """A suite with its installed data sets, and the names of the data sets that are not installed."""

    suite: Suite
    datasets: tuple[Dataset, ...]
    skipped: tuple[str, ...] = ()

    def specs(self) -> list[RunSpec]:
        """Return all runs of the suite on the installed data sets."""
        return [spec for dataset in self.datasets for spec in self.suite.specs(dataset)]

    def reference(self, dataset: Dataset, fold: int) -> Reference | None:
        """Return the offline reference of a fold if the suite needs it; it is trained on first use."""
        return reference_for(dataset, fold) if self.suite.needs_reference else None

    def study(self, frame: Frame) -> Study:
        """Return the input of the tables and figures of the experiments."""
        return Study(
            frame,
            self.suite.labelled(),
            self.suite.published,
            {spell(each): self._skyline(each) for each in self.datasets} if self.suite.needs_reference else {},
            self.suite.guard_parts(),
            self.suite.impressions,
            tuple(each for experiment in self.suite.experiments for each in experiment.comparisons()),
        )

    def _skyline(self, dataset: Dataset) -> float:
        """Return the mean test performance of the offline references over the folds that have runs."""
        folds = range(1, min(dataset.n_folds, self.suite.runs) + 1)
        return float(np.mean([reference_for(dataset, fold).test for fold in folds]))


def comparison(
    algorithms: Sequence[Algorithm | str] | Algorithm | str,
    dataset: Dataset | str,
    users: Sequence[User | str] | User | str,
    runs: int,
    impressions: int,
    length: int = 10,
    metric: Metric | str = "nDCG@10",
    split: str = "test",
    baseline: Algorithm | str = "",
) -> Suite:
    """Return the suite that compares some algorithms on one data set: a table of both measures, and learning curves."""
    rival = _spelled(baseline, Algorithm) if baseline else ""
    recipes = dict.fromkeys([_spelled(each, Algorithm) for each in listed(algorithms)] + ([rival] if rival else []))
    measure = _spelled(metric, Metric)
    return Suite(
        name="compare",
        title=f"Comparison on {_spelled(dataset, Dataset)}",
        datasets=(_spelled(dataset, Dataset),),
        users=tuple(_spelled(user, User) for user in listed(users)),
        runs=runs,
        recipes={recipe: recipe for recipe in recipes},
        experiments=(
            Tables(title="Online and offline performance", baseline=rival, together=True),
            Curves(title="Offline performance while learning", measure=f"offline {measure}"),
        ),
        impressions=impressions,
        length=length,
        metric=measure,
        split=split,  # type: ignore[arg-type]  # checked by the spec of each run
    )


def _spelled(part: P | str, kind: type[P]) -> str:
    return spell(as_part(part, kind))


def plan(
    suite: Suite,
    datasets: Sequence[str] | str | None = None,
    users: Sequence[str] | str | None = None,
    algorithms: Sequence[str] | str | None = None,
    runs: int | None = None,
    impressions: int | None = None,
    installed: bool = True,
) -> Plan:
    """Restrict a suite to the requested settings and to the installed data sets; the plan lists the data sets it skips.

    Parameters
    ----------
    installed
        Whether the data must be installed on this machine; workers of a cluster may have it instead.
    """
    suite = replace(
        suite.only(listed(algorithms)) if algorithms else suite,
        datasets=tuple(listed(datasets or suite.datasets)),
        users=tuple(listed(users or suite.users)),
        runs=suite.runs if runs is None else runs,
        impressions=suite.impressions if impressions is None else impressions,
    )
    found: list[Dataset] = []
    skipped: dict[str, MissingData] = {}
    for name in suite.datasets:
        dataset = parse(name, Dataset)
        try:
            if installed:
                dataset.fold(1)
            found.append(dataset)
        except MissingData as error:
            skipped[name] = error
    if not found:
        raise _nothing_installed(suite, skipped)
    if skipped:
        _log.info("skipped, not installed: %s (see `duelrank data list`)", ", ".join(skipped))
    return Plan(suite, tuple(dict.fromkeys(found)), tuple(skipped))


def _nothing_installed(suite: Suite, skipped: dict[str, MissingData]) -> MissingData:
    if len(skipped) == 1:
        return next(iter(skipped.values()))  # the message says where to get it
    return MissingData(
        f"none of the data sets of {suite.name} is installed: {', '.join(skipped)}. `duelrank data list` shows where to get each, "
        "`duelrank data add NAME PATH` installs it; one is enough to start with, and --datasets synthetic needs none."
    )


def collect(
    plan: Plan,
    store: Store | None = None,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    progress: ProgressCallback | None = None,
    device: Device = "cpu",
) -> Frame:
    """Make the missing runs and return all results of the plan.

    Parameters
    ----------
    store
        Stores each row as soon as its run is finished, and knows which runs are missing; without a store, all runs are made and
        their results are kept in memory only.
    """
    specs = plan.specs()
    missing = store.missing(specs) if store else specs
    tell = progress or (lambda done, total: None)
    data = fingerprints(specs)
    if store and len(missing) < len(specs):
        check_data(store.load(), specs, data, store.folder)
    references = {(spec.dataset, spec.fold): plan.reference(spec.dataset, spec.fold) for spec in missing}
    rows = []
    tell(len(specs) - len(missing), len(specs))
    with timed(store) if missing else nullcontext(), spelling_once():
        for record in run_all(missing, workers, scheduler, device=device) if missing else ():
            place = record.spec.dataset, record.spec.fold
            reference = references[place]
            rows.append(record.row(reference.weights if reference else None, data[place]))
            if store:
                store.append(rows[-1])
            tell(len(specs) - len(missing) + len(rows), len(specs))
    return select(store.load() if store else Frame.of(rows), specs)


@contextmanager
def timed(store: Store | None) -> Iterator[None]:
    """Add the duration of the runs to the wall time of a store, even if they are interrupted."""
    started = perf_counter()
    try:
        yield
    finally:
        if store:
            store.add_wall_time(perf_counter() - started)


def fingerprints(specs: Sequence[RunSpec]) -> dict[tuple[Dataset, int], str]:
    """Return the fingerprint of each fold; empty if only the workers of a cluster have the data."""
    found = {}
    for dataset, fold in dict.fromkeys((spec.dataset, spec.fold) for spec in specs):
        try:
            found[dataset, fold] = fingerprint(dataset.fold(fold))
        except MissingData:
            found[dataset, fold] = ""
    return found


def check_data(frame: Frame, specs: Sequence[RunSpec], data: dict[tuple[Dataset, int], str], folder: Path) -> None:
    """Raise an error if a finished run used other data than the data set of that name has now."""
    wanted = {spec.digest: spec for spec in specs}
    for digest, found in zip(frame["digest"].tolist(), frame["data"].tolist(), strict=True):
        spec = wanted.get(digest)
        now = data[spec.dataset, spec.fold] if spec is not None else ""
        if spec is not None and found and now and found != now:
            raise InvalidValue(
                f"{folder} has results on other data: {spell(spec.dataset)} was imported again since then; "
                "choose another folder (--out)"
            )


def select(frame: Frame, specs: Sequence[RunSpec]) -> Frame:
    """Return the results of the given specs, in their order: a folder may also contain other runs of its suite."""
    rows = {digest: number for number, digest in enumerate(frame["digest"].tolist())}
    wanted = [rows[spec.digest] for spec in specs if spec.digest in rows]
    if len(wanted) < len(specs):
        raise InvalidValue(f"{len(specs) - len(wanted)} of {len(specs)} runs are missing from the results")
    return frame.take(np.array(wanted))


def make_report(plan: Plan, frame: Frame, wall_seconds: float | None = None, command: str = "") -> Report:
    """Return all tables and figures of a suite, with the provenance of its results."""
    study = plan.study(frame)
    made = provenance(frame, wall_seconds, command)
    if plan.skipped:
        made["Not installed"] = ", ".join(plan.skipped)
    return Report(plan.suite.title, tuple(each.section(study) for each in plan.suite.experiments), made)


@dataclass(frozen=True, eq=False)
class SuiteResult:
    """The results of a suite.

    Parameters
    ----------
    plan
        The suite and its data sets.
    frame
        All runs.
    tables
        The tables by unique names.
    report, path
        The report, and the path of its page; None if the results have no folder.
    """

    plan: Plan
    frame: Frame
    tables: Mapping[str, Table]
    report: Report | None = None
    path: Path | None = None

    def described(self) -> dict[str, Any]:
        """Return plain values: the numbers of all tables, mean learning curves, and all runs without their curves."""
        additions = ("guard", "log", "impressions")
        return {
            "suite": self.plan.suite.name,
            "report": None if self.path is None else str(self.path),
            "skipped": list(self.plan.skipped),
            "tables": {name: table.records() for name, table in self.tables.items()},
            "curves": [
                {"guard": guard, **({"log": log} if log else {}), **asdict(curve)}
                for (guard, log, _), runs in self.frame.groups(*additions)
                for curve in mean_curves(runs)
            ],
            "runs": [
                {name: value for name, value in row.items() if not isinstance(value, np.ndarray)}
                for row in self.frame.rows()
            ],
        }


def run_suite(
    suite: Suite,
    out: str | Path | None,
    datasets: Sequence[str] | str | None = None,
    users: Sequence[str] | str | None = None,
    algorithms: Sequence[str] | str | None = None,
    runs: int | None = None,
    impressions: int | None = None,
    installed: bool = True,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    device: Device = "cpu",
    command: str = "",
) -> SuiteResult:
    """Make the missing runs of a suite; with a folder, store them there and write the report.

    Parameters
    ----------
    suite, datasets, users, algorithms, runs, impressions, installed
        As in `plan`.
    out
        Folder of the results; None keeps them in memory.
    workers, scheduler, device
        As in `run_all`.
    command
        Command line of this process, for the report.
    """
    wanted = plan(suite, datasets, users, algorithms, runs, impressions, installed)
    if out is None:
        frame, _ = run_plan(wanted, None, workers, scheduler, device)
        study = wanted.study(frame)
        return SuiteResult(wanted, frame, {t.name: t for each in wanted.suite.experiments for t in each.tables(study)})
    figure_class()  # raises an error before the runs if matplotlib is missing
    frame, wall_seconds = run_plan(wanted, out, workers, scheduler, device)
    with spinner("drawing tables and figures"):
        report = make_report(wanted, frame, wall_seconds, command)
        path = report.write(Path(out))
    return SuiteResult(wanted, frame, report.tables(), report, path)


@explained
def compare(
    algorithms: Sequence[Algorithm | str] | Algorithm | str,
    dataset: Dataset | str = "synthetic",
    users: Sequence[User | str] | User | str = USERS,
    runs: int = 3,
    impressions: int = 10_000,
    length: int = 10,
    metric: Metric | str = "nDCG@10",
    split: str = "test",
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    device: Device = "cpu",
) -> Frame:
    """Run algorithms with users on one data set and return all runs; `Frame.table` and `Frame.plot` show them.

    Parameters
    ----------
    algorithms, users
        One or several: objects or texts, or one text such as ``"perfect,navigational"``.
    runs
        How many of each pair: over the folds first, then over the seeds.
    out
        A folder that stores each run as soon as it is finished; the same call resumes from there. In memory only by default.
    workers, scheduler, device
        As in `run_all`.

    Examples
    --------
    >>> from duelrank.experiments import compare
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=20)", "perfect", runs=1, impressions=50, workers=1)
    >>> results.table()
    Table('Online and offline nDCG@10': 2 rows, 5 columns)
    """
    suite = comparison(algorithms, dataset, users, runs, impressions, length, metric, split)
    return run_plan(plan(suite, installed=scheduler is None), out, workers, scheduler, device)[0]


@explained
def reproduce(
    suite: Suite | str,
    out: str | Path,
    datasets: Sequence[str] | str | None = None,
    users: Sequence[str] | str | None = None,
    algorithms: Sequence[str] | str | None = None,
    runs: int | None = None,
    impressions: int | None = None,
    *,
    workers: int | None = None,
    scheduler: Scheduler | None = None,
    device: Device = "cpu",
) -> Report:
    """Make the missing runs of a suite in a folder, write tables, figures and ``report.html`` there, and return the report.

    Parameters
    ----------
    suite
        A suite, its name, or the path of a suite file.
    datasets, users, algorithms, runs, impressions
        Replace those of the suite.
    workers, scheduler, device
        As in `run_all`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from duelrank.experiments import reproduce
    >>> with TemporaryDirectory() as folder:
    ...     report = reproduce("quick", folder, users=["perfect"], algorithms=["mgd"], runs=1, impressions=50, workers=1)
    >>> len(report.sections)
    2
    """
    loaded = load_suite(suite) if isinstance(suite, str) else suite
    result = run_suite(
        loaded, out, datasets, users, algorithms, runs, impressions, workers=workers, scheduler=scheduler, device=device
    )
    assert result.report is not None
    return result.report


def run_plan(
    wanted: Plan,
    out: str | Path | None,
    workers: int | None,
    scheduler: Scheduler | None,
    device: Device = "cpu",
) -> tuple[Frame, float | None]:
    """Make the missing runs; return all results, and the total wall time if a folder stores it."""
    with count_bar("runs") as progress:
        if out is None:
            return collect(wanted, None, workers, scheduler, progress, device), None
        with Store(out, wanted.suite.name) as store:
            return collect(wanted, store, workers, scheduler, progress, device), store.wall_seconds
