"""Shows one run on the terminal: its numbers, its full recipe and its learning curve."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from duelrank.algorithms import Algorithm
from duelrank.cli.chart import Series, chart
from duelrank.core.registry import counted, spell
from duelrank.experiments.report import outline
from duelrank.metrics import DISCOUNT, Metric, nDCG
from duelrank.simulation import Record

WIDEST = 100  # characters of a chart or a panel: wider ones are harder to read


def show_record(record: Record, width: int) -> RenderableType:
    """Return a display of one run: its numbers and their meaning, its full recipe, its learning curve."""
    spec, width = record.spec, min(width, WIDEST)
    name = spell(spec.algorithm)
    panel = Panel(
        _numbers(record), title=Text(f"{name} on {spell(spec.dataset)}", style="bold"), title_align="left", width=width
    )
    curve = chart([Series(name.partition("(")[0], record.checkpoints.tolist(), record.offline.tolist())], width)
    recipe = _heading(f"recipe {spec.algorithm!r}, in full")
    return Group(panel, recipe, _outline(spec.algorithm), _heading(f"offline {spec.metric!r} while learning"), curve)


def _numbers(record: Record) -> Table:
    spec, metric = record.spec, repr(record.spec.metric)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim")
    grid.add_column(justify="right", style="bold", no_wrap=True)
    grid.add_column()
    sums = f"Σ {DISCOUNT}^t · {metric} of shown lists"
    micro, per_second = 1e6 * record.seconds / spec.impressions, spec.impressions / record.seconds
    grid.add_row(
        "online",
        f"{record.online_performance:.2f}",
        f"{sums}, t = 0 to {spec.impressions - 1:,}",
    )
    grid.add_row(
        "offline", f"{record.offline_performance:.4f}", f"mean {metric} of the final weights, {spec.split} queries"
    )
    grid.add_row("updates", f"{(record.update_norms > 0).sum():,}", f"of {counted(spec.impressions, 'impression')}")
    grid.add_row("speed", f"{micro:.1f} µs", f"per impression; {per_second:,.0f} per second, {record.seconds:.2f} s")
    grid.add_row("metric", "", definition(spec.metric))
    grid.add_row("run", "", f"fold {spec.fold}, seed {spec.seed}, {spell(spec.user)} user, lists of {spec.length}")
    return grid


def definition(metric: Metric) -> str:
    """Return a one-line definition of a metric."""
    if isinstance(metric, nDCG):
        gain = "2^label − 1" if metric.gain == "exponential" else "label"
        return f"{metric!r}: gain {gain}, discount 1/log2(position + 1)"
    return f"{metric!r}: {(type(metric).__doc__ or '').strip().splitlines()[0]}"


def _outline(algorithm: Algorithm) -> Group:
    """Write a recipe out with all parts and parameters, including those at their defaults."""
    lines: list[RenderableType] = []
    for depth, name, kind, parameters in outline(algorithm):
        label = f"{name} = " if name else ""
        line = Text.assemble((label, "dim"), (kind, "bold cyan"), f"({parameters})" if parameters else "")
        lines.append(Padding(line, (0, 0, 0, 2 * depth), expand=False))
    return Group(*lines, "")


def _heading(text: str) -> Text:
    return Text(text, style="bold")
