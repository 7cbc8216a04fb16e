"""``duelrank reproduce``: a suite of experiments, from the missing runs to the report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import complain, count_bar, out, print_json, spinner, tell
from duelrank.cli.options import JsonOption, SchedulerOption, split_top_level

if TYPE_CHECKING:
    from duelrank.experiments.frame import Frame
    from duelrank.experiments.reproduce import Plan

__all__ = ["reproduce"]


def reproduce(
    suite: Annotated[
        str,
        typer.Argument(
            help="sigir19, sigir19-exact, sigir19-text, sigir19-figures, sigir19-ablation, league, future-examination,"
            " future-exploration, future-best or quick."
        ),
    ],
    datasets: Annotated[str | None, typer.Option("--datasets", help="Some data sets, separated by commas.")] = None,
    users: Annotated[str | None, typer.Option("--users", help="Some users, separated by commas.")] = None,
    algorithms: Annotated[
        str | None, typer.Option("--algorithms", help="Some of the suite's, by label or recipe, separated by commas.")
    ] = None,
    runs: Annotated[int | None, typer.Option("--runs", help="Of each cell: folds first, then seeds.")] = None,
    impressions: Annotated[int | None, typer.Option("--impressions", "-n", help="How many lists are shown.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Processes; all processors by default.")] = None,
    scheduler: SchedulerOption = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Where results go; results/SUITE by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the experiments of a suite, or what is missing of them, and write tables, figures and a report."""
    from duelrank.experiments.present import present
    from duelrank.experiments.reproduce import plan
    from duelrank.experiments.suite import load_suite

    started = perf_counter()
    named = {"datasets": datasets, "users": users, "algorithms": algorithms}
    lists = {name: split_top_level(text) if text else None for name, text in named.items()}
    wanted = plan(load_suite(suite), **lists, runs=runs, impressions=impressions)
    for name, why in wanted.skipped.items():
        complain(f"skipped {name}: {why}")
    target = folder or Path("results") / suite
    frame = _run(wanted, target, workers, scheduler)
    with spinner("drawing tables and figures"):
        report = present(wanted, frame, target, perf_counter() - started, _again())
    if as_json:
        print_json({"suite": suite, "report": str(report), "skipped": wanted.skipped, "runs": _plain(frame)})
    else:
        _show(wanted, frame, report)


def _run(wanted: Plan, target: Path, workers: int | None, scheduler: str | None) -> Frame:
    from duelrank.experiments.reproduce import collect
    from duelrank.experiments.store import Store

    try:
        with Store(target, wanted.suite.name) as store, count_bar("runs") as progress:
            return collect(wanted, store, workers, scheduler, progress, announce=tell)
    except KeyboardInterrupt:
        complain(f"stopped; what is finished is kept in {target}. To go on from there: {_again()}")
        raise


def _again() -> str:
    return shlex.join(["duelrank", *sys.argv[1:]])


def _plain(frame: Frame) -> list[dict[str, object]]:
    """The rows without their curves."""
    return [{name: value for name, value in row.items() if not hasattr(value, "shape")} for row in frame.rows()]


def _show(wanted: Plan, frame: Frame, report: Path) -> None:
    from duelrank.cli.tables import league_report, table_report
    from duelrank.experiments.league import league
    from duelrank.experiments.present import MEASURES, baseline_of, labels_of, skyline_of
    from duelrank.experiments.tables import table

    console = out()
    labels = labels_of(wanted)
    kinds = {experiment.kind for experiment in wanted.suite.experiments}
    named = frame.among("algorithm", labels)
    for _, runs in named.groups("dataset") if "league" in kinds else ():
        console.print(league_report(league(runs), labels))
    if kinds & {"tables", "ablation"}:
        for measure in MEASURES:
            console.print(table_report(table(named, measure, baseline_of(wanted)), labels))
        console.print(skyline_of(wanted), style="dim")
    console.print(
        f"tables and figures: {report.parent}", f"report: {report.absolute().as_uri()}", sep="\n", soft_wrap=True
    )
