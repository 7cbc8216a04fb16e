"""``duelrank compare``: compares algorithms, each with several users and over several runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duelrank.cli.console import out, print_json
from duelrank.cli.options import (
    USERS,
    DatasetOption,
    DeviceChoice,
    DeviceOption,
    ImpressionsOption,
    JsonOption,
    LengthOption,
    MetricOption,
    SchedulerOption,
    SplitOption,
    UsersOption,
    WorkersOption,
    algorithm_names,
    check_file,
)
from duelrank.cli.results import command_line, print_tables, resumable

if TYPE_CHECKING:
    from duelrank.experiments import Frame, Table

ALGORITHMS = ("dbgd", "dbgd-dsp", "mgd", "mgd-dsp", "nsgd", "nsgd-dsp")
_WIDEST = 100  # characters of a chart: wider charts are harder to read

AlgorithmsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Algorithms; by default {' '.join(ALGORITHMS)}.", show_default=False, autocompletion=algorithm_names
    ),
]


def compare(
    algorithms: AlgorithmsArgument = None,
    dataset: DatasetOption = "synthetic",
    users: UsersOption = USERS,
    runs: Annotated[
        int, typer.Option("--runs", "-r", help="Runs per algorithm and user: one per fold, then per seed.")
    ] = 3,
    impressions: ImpressionsOption = 10_000,
    baseline: Annotated[
        str, typer.Option("--baseline", "-b", help="Algorithm to test all others against.", show_default=False)
    ] = "",
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    device: DeviceOption = DeviceChoice.cpu,
    length: LengthOption = 10,
    metric: MetricOption = "nDCG@10",
    split: SplitOption = "test",
    as_json: JsonOption = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Store runs in this folder, resume from it, write a report.")
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Also write the table to this CSV file.")] = None,
    latex: Annotated[Path | None, typer.Option("--latex", help="Also write the table to this LaTeX file.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Plot the learning curves to this file (.png, …).")
    ] = None,
) -> None:
    """Compare algorithms: means and standard deviations over runs, significance tests, learning curves."""
    from duelrank.experiments.pipeline import comparison, run_suite

    _check_targets(csv_file, latex, plot)
    suite = comparison(algorithms or ALGORITHMS, dataset, users, runs, impressions, length, metric, split, baseline)
    how: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "device": device.value}
    with resumable(folder):
        result = run_suite(suite, folder, installed=scheduler is None, command=command_line(), **how)
    (table,) = result.tables.values()
    if as_json:
        print_json(result.described())
    else:
        _show(table, result.frame, result.path, charts=plot is None)
    _write(table, result.frame, csv_file, latex, plot)  # last: the results are on the screen even if the disk is full


def _check_targets(csv_file: Path | None, latex: Path | None, plot: Path | None) -> None:
    """Raise an error if an output file cannot be written, before the runs, which may take hours."""
    from duelrank.experiments.figures import check_target

    for path in filter(None, (csv_file, latex, plot)):
        check_file(path)
    if plot is not None:
        check_target(plot)


def _write(table: Table, frame: Frame, csv_file: Path | None, latex: Path | None, plot: Path | None) -> None:
    from duelrank.core.files import write_bytes
    from duelrank.experiments.figures import write_figure
    from duelrank.experiments.tables import to_csv, to_latex

    for path, to_text in ((csv_file, to_csv), (latex, to_latex)):
        if path is not None:
            write_bytes(path, to_text(table).encode())
    if plot is not None:
        write_figure(frame.plot(), plot)


def _show(table: Table, frame: Frame, report: Path | None, charts: bool) -> None:
    from duelrank.cli.record import definition
    from duelrank.core.grammar import parse
    from duelrank.metrics import Metric

    console = out()
    print_tables([table])
    console.print(definition(parse(str(frame["metric"][0]), Metric)), "", style="dim")
    if charts:
        _show_charts(frame)
    if report is not None:
        console.print(f"report: {report.absolute().as_uri()}", soft_wrap=True)


def _show_charts(frame: Frame) -> None:
    from rich.text import Text

    from duelrank.cli.chart import Series, chart
    from duelrank.experiments import mean_curves

    console = out()
    curves = mean_curves(frame)
    width = min(console.width, _WIDEST)
    names = _short(list(dict.fromkeys(curve.algorithm for curve in curves)), max(12, width // 3))
    for user in dict.fromkeys(curve.user for curve in curves):
        mine = [curve for curve in curves if curve.user == user]
        bases = {curve.base for curve in mine}
        lines = [Series(names[c.algorithm], c.impressions, c.mean, dashed=c.algorithm in bases) for c in mine]
        console.print(Text(f"offline {frame['metric'][0]} while learning, {user} user", style="bold"))
        console.print(chart(lines, width), "")


def _short(names: list[str], room: int) -> dict[str, str]:
    """Return names that fit into a chart: long names are truncated, and numbered if two would be equal."""
    short: dict[str, str] = {}
    for name in names:
        cut = name if len(name) <= room else f"{name[: room - 1]}…"
        same = sum(cut == known for known in short.values())
        short[name] = f"{cut[: room - 4]}… [{same + 1}]" if same else cut
    return short
