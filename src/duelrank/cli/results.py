"""Runs a plan, prints its tables and writes its report: shared by ``compare`` and ``reproduce``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duelrank.cli.console import complain, out, print_json, spinner

if TYPE_CHECKING:
    from duelrank.experiments import Frame, Table
    from duelrank.experiments.executors import Device
    from duelrank.experiments.pipeline import Plan

__all__ = ["command_line", "print_results", "print_tables", "run_plan", "write_report"]


def run_plan(
    wanted: Plan, folder: Path | None, workers: int | None, scheduler: str | None, device: Device = "cpu"
) -> tuple[Frame, float | None]:
    """Make the missing runs; an interrupt says what is kept and how to resume."""
    from duelrank.experiments import pipeline

    try:
        return pipeline.run_plan(wanted, folder, workers, scheduler, device)
    except KeyboardInterrupt:
        complain(_after_interrupt(folder))
        raise


def _after_interrupt(folder: Path | None) -> str:
    if folder is None:
        return (
            "stopped; finished runs are lost. With --out FOLDER they are kept, and the same command resumes from there."
        )
    return f"stopped; finished runs are kept in {folder}. To resume: {command_line()}"


def command_line() -> str:
    """Return the command that this process was started with."""
    return shlex.join(["duelrank", *sys.argv[1:]])


def write_report(wanted: Plan, frame: Frame, folder: Path, wall_seconds: float | None) -> tuple[Path, dict[str, Table]]:
    """Write tables, figures and the report of a plan; return the path of the report, and the tables by name."""
    from duelrank.experiments.pipeline import make_report

    with spinner("drawing tables and figures"):
        report = make_report(wanted, frame, wall_seconds, command_line())
        path = report.write(folder)
    return path, report.tables()


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables to the terminal."""
    from duelrank.experiments.tables import to_terminal

    console = out()
    for table in tables:
        console.print(to_terminal(table, console.width))


def print_results(wanted: Plan, frame: Frame, tables: Mapping[str, Table], report: Path | None) -> None:
    """Write the results as JSON: the numbers of all tables, mean learning curves, and all runs without their curves."""
    from duelrank.experiments import mean_curves

    print_json(
        {
            "suite": wanted.suite.name,
            "report": None if report is None else str(report),
            "skipped": list(wanted.skipped),
            "tables": {name: table.records() for name, table in tables.items()},
            "curves": [
                {"guard": guard, **asdict(curve)}
                for (guard, _), runs in frame.groups("guard", "impressions")
                for curve in mean_curves(runs)
            ],
            "runs": [_without_curves(row) for row in frame.rows()],
        }
    )


def _without_curves(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not hasattr(value, "shape")}
