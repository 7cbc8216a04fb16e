"""How results look on a terminal: the report of one run, the tables and charts of a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from duelrank.cli.chart import Series, chart
from duelrank.experiments import Comparison, Row, Spread
from duelrank.metrics import DISCOUNT, Metric, nDCG
from duelrank.registry import Part, spell
from duelrank.simulation import Record

__all__ = ["comparison_report", "run_report"]

WIDEST = 100  # of a chart or a panel: longer lines are harder to follow


def run_report(record: Record, width: int) -> RenderableType:
    """Show one run: its numbers and what they mean, the recipe in full, the learning curve."""
    spec, width = record.spec, min(width, WIDEST)
    name = spell(spec.algorithm)
    panel = Panel(
        _facts(record), title=Text(f"{name} on {spell(spec.dataset)}", style="bold"), title_align="left", width=width
    )
    curve = chart([Series(name.partition("(")[0], record.checkpoints.tolist(), record.offline.tolist())], width)
    recipe = _heading(f"recipe {spec.algorithm!r}, in full")
    return Group(panel, recipe, _tree(spec.algorithm), "", _heading(f"offline {spec.metric!r} while learning"), curve)


def _facts(record: Record) -> Table:
    spec, metric = record.spec, repr(record.spec.metric)
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim")
    facts.add_column(justify="right", style="bold", no_wrap=True)
    facts.add_column()
    micro, per_second = 1e6 * record.seconds / spec.impressions, spec.impressions / record.seconds
    facts.add_row("online", f"{record.online_ndcg:.2f}", f"{_online(metric)}, t = 0 to {spec.impressions - 1:,}")
    facts.add_row("offline", f"{record.offline_ndcg:.4f}", f"mean {metric} of the final weights, {spec.split} queries")
    facts.add_row("updates", f"{(record.update_norms > 0).sum():,}", f"of {spec.impressions:,} impressions")
    facts.add_row("speed", f"{micro:.1f} µs", f"per impression; {per_second:,.0f} per second, {record.seconds:.2f} s")
    facts.add_row("metric", "", _definition(spec.metric))
    facts.add_row("run", "", f"fold {spec.fold}, seed {spec.seed}, {spell(spec.user)} user, lists of {spec.length}")
    return facts


def _online(metric: str) -> str:
    return f"Σ {DISCOUNT}^t · {metric} of shown lists"


def _definition(metric: Metric) -> str:
    if isinstance(metric, nDCG):
        gain = "2^label − 1" if metric.gain == "exponential" else "label"
        return f"{metric!r}: gain {gain}, discount 1/log2(position + 1)"
    return f"{metric!r}: {(type(metric).__doc__ or '').strip().splitlines()[0]}"


def _tree(part: Part, label: str = "", parent: Tree | None = None) -> Tree:
    """Spell a recipe out with all its parts and parameters, also those that are at their defaults."""
    values = {item.name: getattr(part, item.name) for item in fields(part)}
    plain = ", ".join(f"{name}={value!r}" for name, value in values.items() if not isinstance(value, Part))
    head = Text.assemble((label, "dim"), (type(part).__name__, "bold cyan"), f"({plain})" if plain else "")
    tree = parent.add(head) if parent else Tree(head, guide_style="dim")
    for name, value in values.items():
        if isinstance(value, Part):
            _tree(value, f"{name} = ", tree)
    return tree


def comparison_report(comparison: Comparison, metric: Metric, width: int, charts: bool = True) -> RenderableType:
    """Show a comparison: a table for each user, the learning curves where they are wanted, and what is what."""
    width = min(width, WIDEST)
    labels = _labels(comparison, max(20, width - 62))  # the other columns of the table need the rest
    shown: list[RenderableType] = []
    for user in comparison.users:
        shown += [_heading(f"{user} user"), _table(comparison, user, labels)]
        if charts:
            title = _heading(f"offline {comparison.metric} while learning")
            shown += [title, _curves(comparison, user, labels, width), ""]
    return Group(*shown, _legend(comparison, metric, labels))


def _labels(comparison: Comparison, room: int) -> dict[str, str]:
    """Give each algorithm a name that fits: a long recipe gets a number, and is spelled out once, below."""
    labels: dict[str, str] = {}
    long = 0
    for name in dict.fromkeys(row.algorithm for row in comparison.rows):
        labels[name] = name
        if len(name) > room:
            long += 1
            labels[name] = f"{name.partition('(')[0][: room - 8]}(…) [{long}]"
    return labels


def _table(comparison: Comparison, user: str, labels: dict[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("algorithm", overflow="fold", style="cyan")
    for name in ("online", "vs base", "offline", "vs base", "µs"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in comparison.rows:
        if row.user == user:
            table.add_row(Text(labels[row.algorithm]), *_cells(row, comparison), f"{row.microseconds:.1f}")
    return table


def _cells(row: Row, comparison: Comparison) -> Iterable[Text]:
    online = row.online.mean == comparison.best(row.user, "online")
    offline = row.offline.mean == comparison.best(row.user, "offline")
    yield _spread(row.online, 2, online)
    yield _change(row.online_change)
    yield _spread(row.offline, 4, offline)
    yield _change(row.offline_change)


def _spread(value: Spread, digits: int, best: bool) -> Text:
    std = "" if value.std is None else f" ({value.std:.{digits}f})"
    mean = f"{value.mean:.{digits}f}"
    return Text.assemble((f"*{mean}", "bold green") if best else mean, (std, "dim"))


def _change(value: float | None) -> Text:
    if value is None:
        return Text("")
    return Text(f"{value:+.1%}", style="green" if value > 0 else "red")


def _curves(comparison: Comparison, user: str, labels: dict[str, str], width: int) -> Text:
    curves = [curve for curve in comparison.curves if curve.user == user]
    bases = {curve.base for curve in curves}
    lines = [
        Series(labels[curve.algorithm], curve.impressions, curve.offline, dashed=curve.algorithm in bases)
        for curve in curves
    ]
    return chart(lines, width)


def _legend(comparison: Comparison, metric: Metric, labels: dict[str, str]) -> Table:
    runs = max(row.runs for row in comparison.rows)
    legend = Table.grid(padding=(0, 2, 0, 0))
    legend.add_column(style="bold dim", no_wrap=True)
    legend.add_column(style="dim")
    for name, label in labels.items():
        if name != label:
            legend.add_row(Text(label.rpartition(" ")[2]), Text(name))
    legend.add_row(
        "numbers", f"mean (standard deviation) of {runs} runs, * the best" if runs > 1 else "of one run, * the best"
    )
    legend.add_row("online", _online(comparison.metric))
    legend.add_row("offline", f"mean {comparison.metric} of the final weights on held-out queries")
    legend.add_row("metric", _definition(metric))
    legend.add_row("vs base", "change of the mean against the same algorithm without projection")
    legend.add_row("µs", "microseconds per impression, evaluation not counted")
    return legend


def _heading(text: str) -> Text:
    return Text(text, style="bold")
