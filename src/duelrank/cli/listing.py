"""``duelrank list``: everything that has a name."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duelrank.cli.console import out, print_json
from duelrank.cli.options import JsonOption

if TYPE_CHECKING:
    from duelrank.registry import Part

__all__ = ["list_parts"]


def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="algorithms, users, datasets, multileavers, metrics, explorations, inferences, projections,"
            " examinations, updates or experiments; all of them by default."
        ),
    ] = None,
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the page of algorithms and parts.")] = False,
    results: Annotated[
        Path | None, typer.Option("--results", help="With --markdown: the CSV of a league table, for its numbers.")
    ] = None,
) -> None:
    """List what can be named: algorithms, users, data sets, metrics and the parts that algorithms are made of."""
    from duelrank.errors import UnknownName

    if markdown:
        typer.echo(_algorithms_page(results), nl=False)
        return
    kinds = _kinds()
    if kind is not None and kind not in kinds:
        raise UnknownName.among("kind of part", kind, kinds)
    found = {name: _entries(part) for name, part in kinds.items() if kind in (None, name)}
    if as_json:
        print_json(found)
    else:
        out().print(Group(*(_table(name, entries) for name, entries in found.items())))


def _algorithms_page(results: Path | None) -> str:
    from duelrank.errors import MissingData
    from duelrank.experiments.report.algorithms import Measured, algorithms_page, read_league

    if results is None:
        return algorithms_page(Measured({}))
    try:
        return algorithms_page(read_league(results.read_text(encoding="utf-8")))
    except OSError as error:
        raise MissingData(f"{results} cannot be read: {error.strerror}") from None


def _kinds() -> dict[str, type[Part]]:
    from duelrank.algorithms import Algorithm
    from duelrank.datasets import Dataset
    from duelrank.experiments import Experiment
    from duelrank.exploration import Exploration
    from duelrank.inference import Inference
    from duelrank.metrics import Metric
    from duelrank.multileaving import Multileaver
    from duelrank.projection import Examination, Projection
    from duelrank.updates import Update
    from duelrank.users import User

    return {
        "algorithms": Algorithm,
        "users": User,
        "datasets": Dataset,
        "multileavers": Multileaver,
        "metrics": Metric,
        "explorations": Exploration,
        "inferences": Inference,
        "projections": Projection,
        "examinations": Examination,
        "updates": Update,
        "experiments": Experiment,
    }


def _entries(kind: type[Part]) -> list[dict[str, Any]]:
    from duelrank.registry import aliases, classes

    short = [_entry(name, type(part), repr(part), _about(part)) for name, part in aliases(kind).items()]
    return short + [_entry(name, cls, None, _first_line(cls)) for name, cls in classes(kind).items()]


def _entry(name: str, cls: type[Part], recipe: str | None, about: str) -> dict[str, Any]:
    return {"name": name, "recipe": recipe, "about": about, "parameters": _parameters(cls)}


def _parameters(cls: type[Part]) -> dict[str, str | None]:
    """Return each parameter's default as it is spelled; None where it has to be given."""
    return {item.name: None if item.default is MISSING else repr(item.default) for item in fields(cls)}


def _about(part: Part) -> str:
    """Say what sets a short name apart from others of its class, where its class's own words would not."""
    from duelrank.algorithms import Projected
    from duelrank.datasets import Imported, info
    from duelrank.registry import spell
    from duelrank.users import Preset

    if isinstance(part, Projected):
        return f"{spell(part.base)}, its gradients projected before they are followed"
    if isinstance(part, Preset):
        user = part.for_grades(3)
        return f"for labels 0, 1, 2: clicks with {user.click_probability}, then stops with {user.stop_probability}"
    if isinstance(part, Imported):
        known = info(part.name)
        title = known.entry.title if known.entry else "added on this machine"
        return f"{title}, {'installed' if known.meta else 'not installed'}"
    return _first_line(type(part))


def _first_line(cls: type[Part]) -> str:
    return (cls.__doc__ or "").strip().split("\n")[0]


def _table(title: str, entries: list[dict[str, Any]]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=True)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for entry in entries:
        form = entry["recipe"] or f"({', '.join(entry['parameters'])})"
        table.add_row(f"  {entry['name']}", Text.assemble((form, "green"), "\n", (entry["about"], "dim")))
    return Group(Text(title, style="bold"), table, "")
