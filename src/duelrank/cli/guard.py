"""``duelrank guard``: shows live how a guarded ranker compares with the order of its requests."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from duelrank.cli.console import local_time, out
from duelrank.cli.options import URL, JsonOption, KeyOption, UrlOption, connect
from duelrank.cli.rankers import NameArgument, write_json

if TYPE_CHECKING:
    from rich.live import Live

    from duelrank.client import Client, GuardInfo

#: Maximum number of characters of a bar.
BAR = 41
#: Half-widths of the axis of win rates around one half; the first that fits the confidence band is used.
HALVES = (0.05, 0.1, 0.2, 0.5)

OnceOption = Annotated[
    bool,
    typer.Option("--once", help="Show the state once and exit, with status 1 during an alarm. So does --json."),
]
EveryOption = Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two updates.")]


def guard(
    name: NameArgument,
    once: OnceOption = False,
    every: EveryOption = 2.0,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Show live how a guarded ranker compares with your own order, until Ctrl-C."""
    console = out()
    with connect(url, api_key) as client:
        info = client.guard(name)
        if not (once or json) and console.is_terminal:
            _watch(client, info, every)
            return
    if json:
        write_json(info)
    else:
        console.print(view(info, console.width))
    raise typer.Exit(1 if info.state == "alarm" else 0)


def _watch(client: Client, info: GuardInfo, every: float) -> None:
    """Show the state repeatedly; wait for a service that does not answer."""
    from rich.live import Live

    from duelrank.client import ServiceError, ServiceUnreachable

    console, trouble = out(), ""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(view(info, console.width, trouble, datetime.now()), refresh=True)
                time.sleep(every)
                try:
                    before, info, trouble = info, client.guard(info.name), ""
                except (ServiceUnreachable, ServiceError) as error:
                    if isinstance(error, ServiceError) and error.status < 500:
                        raise
                    trouble = trouble or f"no response since {datetime.now():%H:%M:%S}: the numbers may be outdated"
                else:
                    _print_changes(live, before, info)
    except KeyboardInterrupt:
        return


def _print_changes(live: Live, before: GuardInfo, after: GuardInfo) -> None:
    """Print a line above the table for each alarm, promotion and resumption."""
    now = f"{datetime.now():%H:%M:%S}"
    if after.alarms > before.alarms and after.last_alarm is not None:
        live.console.print(Text(f"{now} alarm: {after.last_alarm.reason}", style="bold red"))
    if after.promotions > before.promotions:
        live.console.print(Text(f"{now} promoted to rung {after.rung.number} of {after.rung.rungs}", style="green"))
    if before.state == "alarm" and after.state == "watching":
        live.console.print(Text(f"{now} resumed: the guard starts again on the first rung"))


def view(info: GuardInfo, width: int, trouble: str = "", at: datetime | None = None) -> RenderableType:
    """Return the state of a guard, for a terminal.

    Parameters
    ----------
    info
        The state, from the service.
    width
        Width of the terminal in characters.
    trouble
        Reason why the state may be outdated, shown below it.
    at
        Time of the state, shown in the title; optional.
    """
    from rich.table import Table

    bar = max(11, min(BAR, width - 48)) // 2 * 2 + 1  # odd: one half is in the middle
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, value in _rows(info, bar):
        table.add_row(label, value)
    parts: list[RenderableType] = [_title(info, at), Text(info.summary), Text(""), table]
    if info.state == "alarm":
        parts.append(Text(f"to end the alarm: duelrank rankers resume {info.name}", style="bold"))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in info.warnings]
    if trouble:
        parts.append(Text(trouble, style="yellow"))
    return Group(*parts)


def _title(info: GuardInfo, at: datetime | None) -> Text:
    alarm = Text(" ALARM ", style="bold white on red") + Text("  ")
    shown = Text.assemble((info.name, "bold"), "  ", alarm if info.state == "alarm" else "", (_phase(info), "green"))
    shown.append(f"  version {info.model_version:,}")
    return shown if at is None else shown.append(f"  {at:%H:%M:%S}", style="dim")


def _phase(info: GuardInfo) -> str:
    """Return what the ranker does at present, in a few words."""
    if info.phase == "imitating":
        return f"imitates your order: {info.imitated:,} of {info.imitate:,} lists"
    if info.learned_share == 0.0:
        return "all lists have your own order"
    return f"decides {_percent(info.learned_share)} of the lists: rung {info.rung.number} of {info.rung.rungs}"


def _rows(info: GuardInfo, bar: int) -> Iterator[tuple[str, Text]]:
    if info.decisive:
        yield "win rate", _rate(info.win_rate, info.low, info.high, bar)
        counts = f"{info.decisive:,} decisive lists: {info.wins:,} won, {info.losses:,} lost"
        yield "", Text(f"{counts}; {info.lately:.0%} recently won", style="dim")
    else:
        since = " since the alarm" if info.state == "alarm" else ""
        yield "win rate", Text(f"unknown: no decisive list yet{since}", style="dim")
    yield "gain", _gain(info)
    yield "harm", _harm(info, bar)
    yield "ladder", _ladder(info)
    if info.state == "watching" and info.phase == "climbing":
        yield "", Text(_way_up(info), style="dim")
    others = f"{info.ties:,} ties, {info.no_click:,} without a click, {info.repeated:,} repeated"
    others += f", {info.ignored:,} without a user" if info.ignored else ""
    yield "lists", Text(f"{info.lists:,} guard lists since the start of the guard; {others}")
    yield "alarms", _alarms(info)
    yield "guard", Text(_settings(info), style="dim")


def _rate(rate: float, low: float, high: float, width: int) -> Text:
    """Return a win rate with its confidence band on an axis around one half."""
    half = next(each for each in HALVES if each == HALVES[-1] or (low >= 0.5 - each and high <= 0.5 + each))
    colour = "green" if low > 0.5 else "red" if high < 0.5 else "yellow"

    def place(value: float) -> int:
        return max(0, min(width - 1, round((value - 0.5 + half) / (2.0 * half) * (width - 1))))

    text = Text().append(f"{rate:<7.1%}", style="bold").append(f"{0.5 - half:4.0%} ", style="dim")
    for at in range(width):
        inside = place(low) <= at <= place(high)
        mark = "●" if at == place(rate) else "┼" if at == width // 2 else "━" if inside else "─"
        text.append(mark, style=colour if inside else "dim")
    return text.append(f" {0.5 + half:<4.0%}", style="dim").append(f"  {low:.1%} to {high:.1%}")


def _gain(info: GuardInfo) -> Text:
    needed = 1.0 / info.level
    if info.proved:
        return Text(f"proved: the e-value is {_number(info.e_value)}, required {needed:.0f}", style="green")
    return Text(f"not proved: the e-value is {_number(info.e_value)}, required {needed:.0f}")


def _harm(info: GuardInfo, width: int) -> Text:
    """Return the distance of the harm detector to an alarm, as a logarithmic bar."""
    share = min(1.0, math.log1p(info.statistic) / math.log1p(info.threshold))
    full = round(share * width)
    word, colour = ("alarm", "red") if share >= 1.0 else ("rising", "yellow") if share >= 0.5 else ("quiet", "green")
    text = Text().append(f"{word:<7}", style=colour).append("   0 ", style="dim")
    text.append("━" * full, style=colour).append("─" * (width - full), style="dim")
    return text.append(f" {_number(info.threshold):<4}", style="dim").append(f"  now {_number(info.statistic)}")


def _ladder(info: GuardInfo) -> Text:
    text = Text()
    for number, share in enumerate(info.guard.promote, 1):
        if number > 1:
            text.append(" → ", style="dim")
        here = number == info.rung.number
        text.append(f"[{_percent(share)}]" if here else _percent(share), style="bold" if here else "dim")
    if info.phase == "imitating":
        return text.append("  begins when your order is imitated", style="dim")
    if info.learned_share == 0.0:
        return text.append("  all lists have your own order", style="red")
    return text.append(f"  {_percent(info.learned_share)} of the other lists are ranked by the learned ranker")


def _way_up(info: GuardInfo) -> str:
    rung = info.rung
    if not rung.wins + rung.losses:
        return f"next rung when the lower bound on this rung is above {rung.needed:.0%}; no decisive list on it yet"
    return f"next rung when the lower bound on this rung, now {rung.low:.1%}, is above {rung.needed:.0%}"


def _alarms(info: GuardInfo) -> Text:
    last = info.last_alarm
    if last is None:
        return Text("none")
    count = f"{info.alarms:,}, the last on" if info.alarms > 1 else "one, on"
    shown = f"{count} {local_time(last.time)}, version {last.model_version:,}"
    if info.state == "alarm":  # the summary contains the reason
        return Text(shown, style="red")
    return Text(f"{shown}: {last.reason}")


def _settings(info: GuardInfo) -> str:
    spec = info.guard
    parts = [f"{_percent(spec.share)} of all lists", f"on alarm: {spec.on_alarm}"]
    parts += [f"margin {spec.margin:g}"] if spec.margin else []
    parts += ["lists without a user are ignored"] if spec.anonymous == "ignore" else []
    parts += [f"webhook {spec.webhook}"] if spec.webhook is not None else []
    return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{100.0 * share:.4g}%"


def _number(value: float) -> str:
    """Return a number in a few characters."""
    if value >= 1e6:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
