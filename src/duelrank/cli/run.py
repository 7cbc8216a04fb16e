"""``duelrank run``: runs one simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import out, print_json
from duelrank.cli.options import (
    DatasetOption,
    ImpressionsOption,
    JsonOption,
    LengthOption,
    MetricOption,
    SplitOption,
    algorithm_names,
    check_file,
)
from duelrank.core.progress import count_bar, spinner

if TYPE_CHECKING:
    from duelrank.algorithms import Algorithm
    from duelrank.simulation import Record, RunSpec

AlgorithmArgument = Annotated[
    str,
    typer.Argument(help="Algorithm, such as mgd-dsp or 'mgd-dsp(n_candidates=49)'.", autocompletion=algorithm_names),
]


def run(
    algorithm: AlgorithmArgument,
    dataset: DatasetOption = "synthetic",
    fold: Annotated[int, typer.Option("--fold", help="Fold of the data set, counted from 1.")] = 1,
    user: Annotated[
        str, typer.Option("--user", "-u", help="Simulated user model (see duelrank list users).")
    ] = "navigational",
    impressions: ImpressionsOption = 10_000,
    seed: Annotated[int, typer.Option("--seed", "-s", help="Random seed.")] = 1,
    length: LengthOption = 10,
    metric: MetricOption = "nDCG@10",
    split: SplitOption = "test",
    plot_curves: Annotated[
        Path | None, typer.Option(help="Plot what each feature adds to the score to this file (.png, …).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate one online learning run and report its performance."""
    from duelrank.algorithms import Algorithm
    from duelrank.core.grammar import parse
    from duelrank.datasets import Dataset
    from duelrank.experiments.figures import write_figure
    from duelrank.metrics import Metric
    from duelrank.simulation import RunSpec
    from duelrank.users import User

    spec = RunSpec(
        algorithm=parse(algorithm, Algorithm),
        dataset=parse(dataset, Dataset),
        user=parse(user, User),
        fold=fold,
        seed=seed,
        impressions=impressions,
        length=length,
        metric=parse(metric, Metric),
        split=split,  # type: ignore[arg-type]  # checked by the spec
    )
    if plot_curves is not None:
        _check_plot(plot_curves, spec.algorithm)
    record = _simulate(spec, algorithm)
    _show(record, as_json)
    if plot_curves is not None and record.learner is not None:  # last: the numbers are shown even if the disk is full
        write_figure(record.learner.plot(), plot_curves)


def _show(record: Record, as_json: bool) -> None:
    from duelrank.cli.record import show_record

    if as_json:
        print_json(record.row())
    else:
        console = out()
        console.print(show_record(record, console.width))


def _simulate(spec: RunSpec, name: str) -> Record:
    from duelrank.experiments import warm_up
    from duelrank.simulation import simulate

    with spinner("compiling kernels and loading data (slow only the first time)"):
        warm_up([spec])
    with count_bar(name) as progress:
        return simulate(spec, progress=lambda done: progress(done, spec.impressions))


def _check_plot(path: Path, algorithm: Algorithm) -> None:
    """Raise an error if the plot cannot be made, before the run and not after it."""
    from duelrank import Learner
    from duelrank.experiments.figures import check_target

    check_file(path)
    check_target(path)
    if algorithm.per_query or not algorithm.linear:
        Learner(algorithm, n_features=1).curves()  # raises an error that says why it has no curves
