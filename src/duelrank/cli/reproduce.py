"""``duelrank reproduce``: runs a suite of experiments and writes its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from duelrank.cli.console import out, print_json
from duelrank.cli.options import DeviceChoice, DeviceOption, JsonOption, SchedulerOption
from duelrank.cli.results import command_line, print_tables, resumable


def reproduce(
    suite: Annotated[
        str,
        typer.Argument(
            help="Suite to run: quick, sigir19, sigir19-exact, sigir19-text, sigir19-figures, sigir19-ablation, league,"
            " future-examination, future-exploration, future-best, future-features, rivals, guard, backfill, drift, head,"
            " head-drift, or the path of a suite file, such as my-suite.toml."
        ),
    ],
    datasets: Annotated[
        str | None, typer.Option("--datasets", help="Run only these data sets, separated by commas.")
    ] = None,
    users: Annotated[str | None, typer.Option("--users", help="Run only these users, separated by commas.")] = None,
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", help="Run only these, by label or recipe, separated by commas.")
    ] = None,
    runs: Annotated[int | None, typer.Option("--runs", help="Runs per cell: one per fold, then per seed.")] = None,
    impressions: Annotated[int | None, typer.Option("--impressions", "-n", help="Number of result lists.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Worker processes; one per CPU by default.")] = None,
    scheduler: SchedulerOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    folder: Annotated[Path | None, typer.Option("--out", help="Output folder; results/SUITE by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a suite of experiments, skipping finished runs, and write tables, figures and a report."""
    from duelrank.experiments.pipeline import run_suite
    from duelrank.experiments.suite import load_suite

    loaded = load_suite(suite)
    target = folder or Path("results") / loaded.name
    how: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "device": device.value}
    asked = (datasets, users, algorithms, runs, impressions)
    with resumable(target):
        result = run_suite(loaded, target, *asked, command=command_line(), **how)
    if as_json:
        print_json(result.described())
    elif result.path is not None:
        print_tables(result.tables.values())
        page = result.path.absolute().as_uri()
        out().print(f"tables and figures: {target}", f"report: {page}", sep="\n", soft_wrap=True)
