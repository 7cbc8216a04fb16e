"""``duelrank tune``: searches for good parameters of an algorithm."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import out, print_json, print_note
from duelrank.cli.options import (
    USERS,
    DeviceChoice,
    DeviceOption,
    ImpressionsOption,
    JsonOption,
    LengthOption,
    MetricOption,
    SchedulerOption,
    UsersOption,
    WorkersOption,
    algorithm_names,
)
from duelrank.cli.results import command_line, resumable
from duelrank.core.grammar import split_top_level

if TYPE_CHECKING:
    from duelrank.experiments.tuning import Tuned


DatasetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        "-d",
        metavar="NAME",
        help="Data set to tune on; may be given several times, or separated by commas.",
    ),
]
TrialsOption = Annotated[int, typer.Option("--trials", "-t", help="Number of settings to try in all.")]
VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME",
        help="Search only this parameter, in its declared range; NAME=LOW:HIGH or NAME=LOW:HIGH:log for another range, NAME=A,B,C"
        " for choices. May be repeated.",
    ),
]
FixOption = Annotated[
    str | None, typer.Option("--fix", metavar="NAMES", help="Parameters to leave as they are, separated by commas.")
]
ObjectiveOption = Annotated[
    str,
    typer.Option(
        "--objective",
        help="Weights of reward and validation, of worst, the worst run of each cell, and of floor, the worst data set.",
    ),
]
FoldsOption = Annotated[
    int | None, typer.Option("--folds", help="Number of folds of each data set; all by default.", show_default=False)
]
RunsOption = Annotated[int, typer.Option("--runs", "-r", help="Runs per fold, data set and user.")]
SamplerOption = Annotated[str, typer.Option("--sampler", help="How to choose values: tpe or random.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Random seed of the sampler.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Trials at a time; their runs are made together.")]
PruneOption = Annotated[
    bool, typer.Option("--prune/--no-prune", help="Stop trials below the median after a third of the folds.")
]
FolderOption = Annotated[
    Path | None, typer.Option("--out", help="Folder of the search; results/tune-ALGORITHM by default.")
]

AlgorithmArgument = Annotated[
    str,
    typer.Argument(help="Algorithm; the search begins with its parameters.", autocompletion=algorithm_names),
]


def tune(
    algorithm: AlgorithmArgument,
    dataset: DatasetsOption = None,
    trials: TrialsOption = 100,
    users: UsersOption = USERS,
    vary: VaryOption = None,
    fix: FixOption = None,
    objective: ObjectiveOption = "reward=1,validation=1",
    folds: FoldsOption = None,
    runs: RunsOption = 1,
    impressions: ImpressionsOption = 10_000,
    length: LengthOption = 10,
    metric: MetricOption = "nDCG@10",
    sampler: SamplerOption = "tpe",
    seed: SeedOption = 1,
    batch: BatchOption = 20,
    prune: PruneOption = True,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    folder: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for good parameters of an algorithm on validation queries; the same command resumes, and makes the report again."""
    from duelrank.experiments.tuning import tune as search

    target = folder or _default_folder(algorithm)
    space: dict[str, Any] = {"vary": vary or (), "fix": split_top_level(fix or ""), "objective": objective}
    made: dict[str, Any] = {
        "folds": folds,
        "seeds": runs,
        "impressions": impressions,
        "length": length,
        "metric": metric,
    }
    chosen: dict[str, Any] = {"sampler": sampler, "seed": seed, "batch": batch, "prune": prune}
    how: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "device": device.value}
    with resumable(target, "trials and runs"):
        datasets = ",".join(dataset or ["synthetic"])
        found = search(algorithm, datasets, trials, users, out=target, **space, **made, **chosen, **how)
    _show(found, _report(found), as_json)


def _default_folder(algorithm: str) -> Path:
    from duelrank.algorithms import Algorithm
    from duelrank.core.grammar import parse
    from duelrank.core.registry import spell
    from duelrank.experiments.report import file_stem

    return Path("results") / file_stem(f"tune-{spell(parse(algorithm, Algorithm))}")[:100]


def _report(found: Tuned) -> Path | None:
    """Write the report; without matplotlib, say how to make it later."""
    from duelrank.core.errors import MissingExtra
    from duelrank.experiments.tuning.report import write_report

    try:
        return write_report(found, command_line())
    except MissingExtra as error:
        print_note(
            f"no report: {error}; then the same command makes it, without new trials, on any machine with this folder"
        )
        return None


def _show(found: Tuned, report: Path | None, as_json: bool) -> None:
    if as_json:
        scores = {"best": asdict(found.scores), "reference": asdict(found.reference)}
        files = {"folder": str(found.folder), "report": None if report is None else str(report)}
        print_json({"recipe": found.recipe, **scores, "importance": found.importance, **files})
        return
    print_note(f"objective {found.scores.value:.4f}; the recipe as it was has {found.reference.value:.4f}")
    if report is not None:
        print_note(f"report: {report.absolute().as_uri()}")
    out().print(found.recipe, soft_wrap=True, markup=False)
