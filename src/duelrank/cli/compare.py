"""``duelrank compare``: several algorithms with several users, over several runs."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import count_bar, out, print_json, tell
from duelrank.cli.options import (
    DatasetOption,
    ImpressionsOption,
    JsonOption,
    LengthOption,
    MetricOption,
    SchedulerOption,
    SplitOption,
    split_top_level,
)

if TYPE_CHECKING:
    from duelrank.experiments import Comparison, Grid
    from duelrank.simulation import Record

__all__ = ["compare"]

ALGORITHMS = ("dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "nsgd", "nsgd-dsp")
USERS = "perfect,navigational,informational"


def compare(
    algorithms: Annotated[
        list[str] | None, typer.Argument(help=f"Recipes; by default {' '.join(ALGORITHMS)}.", show_default=False)
    ] = None,
    dataset: DatasetOption = "synthetic",
    users: Annotated[str, typer.Option("--users", "-u", help="Who clicks, separated by commas.")] = USERS,
    runs: Annotated[int, typer.Option("--runs", "-r", help="How many of each, over the folds, then over seeds.")] = 3,
    impressions: ImpressionsOption = 10_000,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", help="Processes; all processors by default.", show_default=False)
    ] = None,
    scheduler: SchedulerOption = None,
    length: LengthOption = 10,
    metric: MetricOption = "nDCG@10",
    split: SplitOption = "test",
    as_json: JsonOption = False,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Also write the table to this file.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the curves to this file, such as it.png.")] = None,
) -> None:
    """Compare algorithms: mean and spread over runs, what a projection gains, learning curves."""
    grid = _grid(algorithms or ALGORITHMS, dataset, users, runs, impressions, length, metric, split)
    _check_targets(csv_file, plot)
    records = _run(grid, workers, scheduler)
    comparison = _summary(records)
    if as_json:
        print_json(_as_json(comparison, records))
    else:
        _show(comparison, grid, charts=plot is None)
    # Last, so that a full disk does not take the numbers with it.
    if csv_file is not None:
        _write_csv(comparison, csv_file)
    if plot is not None:
        _draw(comparison, f"{dataset}, {runs} run{'s' if runs > 1 else ''}", plot)


def _grid(
    algorithms: Any, dataset: str, users: str, runs: int, impressions: int, length: int, metric: str, split: Any
) -> Grid:
    from duelrank.algorithms import Algorithm
    from duelrank.datasets import Dataset
    from duelrank.experiments import Grid
    from duelrank.grammar import parse
    from duelrank.metrics import Metric
    from duelrank.users import User

    return Grid(
        algorithms=tuple(parse(text, Algorithm) for text in algorithms),
        dataset=parse(dataset, Dataset),
        users=tuple(parse(text, User) for text in split_top_level(users)),
        runs=runs,
        impressions=impressions,
        length=length,
        metric=parse(metric, Metric),
        split=split,
    )


def _check_targets(csv_file: Path | None, plot: Path | None) -> None:
    """Find out before hours of work, not after, that a file could not be written."""
    from duelrank.errors import InvalidValue, MissingData
    from duelrank.experiments import figures

    for path in filter(None, (csv_file, plot)):
        if not path.absolute().parent.is_dir():
            raise MissingData(f"there is no folder {path.absolute().parent} to write {path.name} into")
        if path.is_dir():
            raise InvalidValue(f"{path} is a folder, not a file to write to")
    if plot is not None:
        figures.check_target(plot)


def _run(grid: Grid, workers: int | None, scheduler: str | None) -> list[Record]:
    from duelrank.experiments import run_all

    specs = grid.specs()
    with count_bar(f"{len(specs)} runs") as progress:
        places = {spec: place for place, spec in enumerate(specs)}
        records = run_all(specs, workers, scheduler, progress, announce=tell)
        return sorted(records, key=lambda record: places[record.spec])


def _summary(records: list[Record]) -> Comparison:
    from duelrank.experiments import compare as summarise

    return summarise(records)


def _as_json(comparison: Comparison, records: list[Record]) -> dict[str, Any]:
    summaries = [record.summary() for record in records]
    shared = {name: summaries[0][name] for name in ("dataset", "impressions", "length", "split")}
    return shared | comparison.as_dict() | {"records": summaries}


def _write_csv(comparison: Comparison, path: Path) -> None:
    rows = [_flat(row) for row in comparison.as_dict()["rows"]]
    with _writing(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a spread, which has a mean and a deviation, into two columns."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= (
            {f"{name}_{part}": number for part, number in value.items()} if isinstance(value, dict) else {name: value}
        )
    return flat


def _draw(comparison: Comparison, title: str, path: Path) -> None:
    from duelrank.experiments import figures

    figure = figures.learning_curves(comparison, title)
    with _writing(path):
        figure.savefig(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    from duelrank.errors import StorageFailure

    try:
        yield
    except OSError as error:
        raise StorageFailure(f"could not write {path}: {error.strerror or error}") from error


def _show(comparison: Comparison, grid: Grid, charts: bool) -> None:
    from duelrank.cli.report import comparison_report

    console = out()
    console.print(comparison_report(comparison, grid.metric, console.width, charts))
