"""``duelrank experiment``: creates, shows, stops and deletes the experiments of a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from duelrank.cli.console import local_time, out, print_note
from duelrank.cli.options import URL, JsonOption, KeyOption, UrlOption, connect
from duelrank.cli.rankers import ActionOption, CloseOption, numbers_by_name, write_json
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.client import ExperimentInfo

app = typer.Typer(no_args_is_help=True, help="Compare systems on live clicks: the experiments of a running service.")

NameArgument = Annotated[str, typer.Argument(help="Name of the experiment.")]
SystemsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[SYSTEM]...", help="Names of the systems whose lists you send.")
]
RankersOption = Annotated[
    list[str] | None,
    typer.Option("--ranker", help="Name of a ranker of the service that is one of the systems. May be repeated."),
]
MultileaverOption = Annotated[
    str | None,
    typer.Option("--multileaver", metavar="RECIPE", help="Method that merges lists; PairDraft() if not given."),
]
LengthOption = Annotated[int | None, typer.Option("--length", help="Maximum number of documents in a merged list.")]
LevelOption = Annotated[
    float | None, typer.Option("--level", help="Probability that the verdict is ever wrong; 0.05 if not given.")
]
YesOption = Annotated[
    str | None,
    typer.Option("--yes", metavar="NAME", help="Name of the experiment again, to delete it without a prompt."),
]


@app.command("list")
def list_experiments(url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """List all experiments of a service."""
    from rich.table import Table

    with connect(url, api_key) as client:
        found = client.experiments()
    if json:
        write_json(found)
        return
    if not found:
        print_note(f"{url} has no experiments yet (duelrank experiment create)")
        return
    table = Table("name", "systems", "state", "lists", "decisive", "verdict")
    for each in found:
        systems = ", ".join((*each.systems, *each.rankers))
        table.add_row(each.name, systems, _state(each), f"{each.lists:,}", f"{each.decisive:,}", each.verdict)
    out().print(table)


@app.command()
def create(
    name: NameArgument,
    systems: SystemsArgument = None,
    ranker: RankersOption = None,
    multileaver: MultileaverOption = None,
    length: LengthOption = None,
    level: LevelOption = None,
    close_after: CloseOption = None,
    action: ActionOption = None,
    url: UrlOption = URL,
    api_key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Create an experiment with two to ten systems; repeating the same command changes nothing."""
    with connect(url, api_key) as client:
        info = client.create_experiment(
            name,
            systems or (),
            rankers=ranker or (),
            multileaver=multileaver,
            length=length,
            level=level,
            close_after=close_after,
            actions=numbers_by_name("--action", action, "purchase=10"),
        )
    _print(info, json)


@app.command()
def show(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """Show the verdict of an experiment and the comparison of each pair of systems; it is valid whenever you look."""
    with connect(url, api_key) as client:
        _print(client.experiment(name), json)


@app.command()
def stop(name: NameArgument, url: UrlOption = URL, api_key: KeyOption = None, json: JsonOption = False) -> None:
    """Stop an experiment for good: it shows no new lists; open lists still count, and the result stays."""
    with connect(url, api_key) as client:
        _print(client.stop_experiment(name), json)


@app.command()
def delete(name: NameArgument, yes: YesOption = None, url: UrlOption = URL, api_key: KeyOption = None) -> None:
    """Delete an experiment with all its data."""
    from duelrank.core.errors import InvalidValue

    with connect(url, api_key) as client:
        info = client.experiment(name)
        if yes is None:
            print_note(f"{name}: {counted(info.lists, 'list')}, {info.decisive:,} decisive; this cannot be undone")
            yes = typer.prompt("Type the name of the experiment to delete it", err=True)
        if yes != name:
            raise InvalidValue(f"{yes!r} is not {name!r}: nothing was deleted")
        client.delete_experiment(name, confirm=yes)
    print_note(f"deleted {name}")


@app.command("read")
def read_log(
    events: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files with UBI events in the order of time; - is stdin.")
    ],
    level: Annotated[float, typer.Option("--level", help="Probability that the verdict is ever wrong.")] = 0.05,
    max_errors: Annotated[int, typer.Option("--max-errors", min=0, help="Maximum number of unreadable records.")] = 100,
) -> None:
    """Show who is better in an A/B test of OpenSearch, from UBI events with the search configuration of each click."""
    from duelrank.adapters.attributions import read_attributed

    result = read_attributed(events, max_errors)
    console = out()
    console.print(result.verdict(level), soft_wrap=True, markup=False)
    console.print(str(result), soft_wrap=True, markup=False)


def _state(info: ExperimentInfo) -> str:
    return "runs" if info.stopped is None else f"stopped {local_time(info.stopped)}"


def _print(info: ExperimentInfo, json: bool) -> None:
    from rich.table import Table

    if json:
        write_json(info)
        return
    console = out()
    console.print(info.verdict, soft_wrap=True, markup=False)
    table = Table("system", "against", "won", "lost", "ties", "win rate", "band", "p")
    for pair in info.pairs:
        counts = (f"{count:,}" for count in (pair.wins, pair.losses, pair.ties))
        band = f"{pair.low:.1%} to {pair.high:.1%}"
        style = "bold" if pair.better else None
        table.add_row(pair.one, pair.other, *counts, f"{pair.win_rate:.1%}", band, f"{pair.p_value:.2g}", style=style)
    console.print(table)
    numbers = (info.counted, info.clicked, info.decisive, info.no_feedback, info.repeated, info.open, info.waiting)
    words = ("counted", "with a click", "decisive", "without feedback", "repeated", "open", "waiting")
    said = ", ".join(f"{count:,} {word}" for count, word in zip(numbers, words, strict=True))
    console.print(f"{counted(info.lists, 'list')}: {said}; {_state(info)}", soft_wrap=True, markup=False)
    for warning in info.warnings:
        print_note(f"warning: {warning}")
