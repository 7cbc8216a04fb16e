"""``duelrank data``: manages the data sets on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duelrank.cli.console import out, print_json
from duelrank.cli.options import JsonOption
from duelrank.core.progress import bytes_bar
from duelrank.core.registry import counted

if TYPE_CHECKING:
    from duelrank.datasets import ImportReport, Info

app = typer.Typer(no_args_is_help=True, help="List, describe, import, download and remove data sets.")

NameArgument = Annotated[str, typer.Argument(help="Name of a data set: from the catalogue, or your own.")]


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the installed data sets and those of the catalogue."""
    from duelrank.datasets import CATALOGUE, home, info, installed

    known = {name: info(name) for name in sorted({*CATALOGUE, *installed()})}
    if as_json:
        print_json([item.as_dict() for item in known.values()])
        return
    table = _sizes("name", "features", "grades", "folds", "state")
    for name, item in known.items():
        table.add_row(name, *_row(item), _state(item))
    out().print(table, Text(f"queries and documents of one fold; installed in {home()}", style="dim"))


@app.command("info")
def info_(name: NameArgument, as_json: JsonOption = False) -> None:
    """Describe a data set: its size, its owner's page and terms of use, and the installed files."""
    from duelrank.datasets import info

    item = info(name)
    if as_json:
        print_json(item.as_dict())
        return
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, value in _facts(item):
        facts.add_row(label, value)
    shown: list[RenderableType] = [Text(name, style="bold cyan"), facts]
    if item.meta is not None:
        shown += [_folds(item.meta.folds), *_warnings(item.meta.warnings)]
    out().print(Group(*shown))


@app.command()
def add(
    name: NameArgument,
    path: Annotated[Path, typer.Argument(help="Folder or archive of LETOR files.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace an installed data set of the same name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Import a data set from LETOR files: a folder, a tar or zip archive, or one compressed file."""
    from duelrank.datasets import library

    with bytes_bar(f"importing {name}") as progress:
        report = library.add(name, path, replace=replace, progress=progress)
    _show(report, as_json)


@app.command()
def fetch(
    name: NameArgument,
    mirror: Annotated[str | None, typer.Option("--mirror", help="Web address of a mirror of the archives.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Download a data set, from its owner if it is openly available or from a mirror, and import it."""
    from duelrank.datasets import library

    with bytes_bar(f"fetching {name}") as progress:
        report = library.fetch(name, mirror=mirror, progress=progress)
    _show(report, as_json)


@app.command()
def remove(name: NameArgument) -> None:
    """Remove an installed data set, but not the files that it was imported from."""
    from duelrank.datasets import library

    library.remove(name)
    out().print(f"removed {name}")


def _show(report: ImportReport, as_json: bool) -> None:
    if as_json:
        print_json(report.as_dict())
        return
    done = f"{report.name}: {counted(report.n_features, 'feature')}, {counted(report.n_grades, 'grade')}"
    speed = f"read {report.bytes_read / 1e6:,.1f} MB in {report.seconds:.1f} s"
    out().print(Group(f"{done}; {speed}", _folds(report.folds), *_warnings(report.warnings)))


def _sizes(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, style="cyan", no_wrap=True)
    for name in ("queries", "documents", *others):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    return table


def _row(item: Info) -> list[str]:
    if item.meta is not None:
        splits = item.meta.folds[1].values()
        numbers = [sum(size.queries for size in splits), sum(size.documents for size in splits)]
        numbers += [item.meta.n_features, item.meta.n_grades, len(item.meta.folds)]
    else:
        assert item.entry is not None  # a known data set is installed or in the catalogue
        entry = item.entry
        numbers = [entry.queries, entry.documents, entry.n_features, entry.n_grades, entry.n_folds]
    return [f"{number:,}" for number in numbers]


def _state(item: Info) -> Text:
    if item.meta is not None:
        return Text("installed", style="green")
    return Text("data fetch" if item.entry and item.entry.url else "from its owner", style="dim")


def _facts(item: Info) -> list[tuple[str, str]]:
    facts = list(zip(("queries", "documents", "features", "grades", "folds"), _row(item), strict=True))
    if item.entry is not None:
        facts = [("title", item.entry.title), *facts, ("page", item.entry.page), ("terms", item.entry.terms)]
        facts += [("files", item.entry.files), ("download", item.entry.url or "from the page, then duelrank data add")]
    return [*facts, ("installed", str(item.path) if item.path else "no")]


def _folds(folds: dict[int, dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("queries / documents", style="cyan", no_wrap=True)
    for split in folds[1]:
        table.add_column(split, justify="right", no_wrap=True)
    for number, splits in folds.items():
        table.add_row(f"fold {number}", *(f"{size.queries:,} / {size.documents:,}" for size in splits.values()))
    return table


def _warnings(warnings: list[str]) -> list[Text]:
    return [Text(f"warning: {warning}", style="yellow") for warning in warnings]
