"""``duelrank reproduce``: runs a suite of experiments and writes its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duelrank.cli.console import out, tell
from duelrank.cli.options import DeviceChoice, DeviceOption, JsonOption, SchedulerOption
from duelrank.cli.results import print_results, print_tables, run_plan, write_report
from duelrank.core.grammar import split_top_level

__all__ = ["reproduce"]


def reproduce(
    suite: Annotated[
        str,
        typer.Argument(
            help="Suite to run: quick, sigir19, sigir19-exact, sigir19-text, sigir19-figures, sigir19-ablation, league,"
            " future-examination, future-exploration, future-best, future-features, rivals, guard, backfill, or the path of a"
            " suite file, such as my-suite.toml."
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
    from duelrank.experiments.figures import figure_class
    from duelrank.experiments.pipeline import plan
    from duelrank.experiments.suite import load_suite

    named = {"datasets": datasets, "users": users, "algorithms": algorithms}
    lists = {name: split_top_level(text) if text else None for name, text in named.items()}
    wanted = plan(load_suite(suite), runs=runs, impressions=impressions, **lists)  # type: ignore[arg-type]
    figure_class()  # fail before the runs, not after, if matplotlib is missing
    if wanted.skipped:
        tell(f"skipped, not installed: {', '.join(wanted.skipped)} (see `duelrank data list`)")
    target = folder or Path("results") / wanted.suite.name
    frame, wall_seconds = run_plan(wanted, target, workers, scheduler, device.value)
    report, tables = write_report(wanted, frame, target, wall_seconds)
    if as_json:
        print_results(wanted, frame, tables, report)
    else:
        print_tables(tables.values())
        out().print(f"tables and figures: {target}", f"report: {report.absolute().as_uri()}", sep="\n", soft_wrap=True)
