"""``duelrank list``: gives an overview, lists registered names and describes their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from itertools import groupby
from pathlib import Path
from re import MULTILINE, findall
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duelrank.cli.console import out, print_json
from duelrank.cli.options import JsonOption

if TYPE_CHECKING:
    from duelrank.core.registry import Part

#: What to begin with, by kind; other kinds are the parts of algorithms and of experiments.
_OVERVIEW = {
    "algorithms": {
        "thompson-pairs-curves": "the most reward and the best final weights",
        "wmgd-dsp-curves": "the steadiest while users are served",
        "wmgd-dsp": "for hundreds of features",
        "mgd-dsp": "the paper's projection on top of MGD",
        "pdgd": "pairwise gradient descent, a strong rival",
    },
    "users": {
        "perfect": "clicks on relevant documents only",
        "navigational": "looks for one good document, then stops; the default of run",
        "informational": "clicks on many documents, some of them by mistake",
    },
    "datasets": {
        "synthetic": "made up, needs no download; the default",
        "mq2007": "LETOR 4.0, like mq2008; see duelrank data info mq2007",
        "mslr-web10k": "large; see duelrank data fetch mslr-web10k",
    },
    "metrics": {
        "nDCG@10": "gain of relevant documents near the top; the default",
        "MRR": "1 / position of the first relevant document",
    },
}
_MORE = {
    "duelrank list algorithms": "all names of a kind",
    "duelrank list mgd-dsp": "a name with its parameters",
    "duelrank list --all": "everything",
}


def list_parts(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND|NAME]",
            help="Kind of names to list (algorithms, users, datasets, representations, scalings, multileavers, metrics,"
            " explorations, inferences, projections, examinations, updates, scorers, memories, experiments, guards, logs,"
            " baselines, estimators or collections),"
            " or one name, to describe its parameters. By default, an overview.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List all names of all kinds.")] = False,
    as_json: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write docs/algorithms.md.")] = False,
    results: Annotated[
        Path | None, typer.Option("--results", help="With --markdown: CSV file of the league's results.")
    ] = None,
) -> None:
    """List algorithms, users, data sets, metrics and the parts of algorithms, or describe one of them."""
    if markdown:
        typer.echo(_algorithms_page(results), nl=False)
        return
    kinds = _kinds()
    if name is not None and name not in kinds:
        _describe(name, as_json)
        return
    if name is None and not (everything or as_json):
        out().print(_overview(kinds))
        return
    found = {kind: _entries(part) for kind, part in kinds.items() if name in (None, kind)}
    if as_json:
        print_json(found)
    else:
        out().print(Group(*(_table(kind, entries) for kind, entries in found.items())))


def _overview(kinds: dict[str, type[Part]]) -> RenderableType:
    """Show what to begin with, in one screen, and how to see the rest."""
    from duelrank.core.registry import aliases, classes

    shown: list[RenderableType] = []
    for kind, examples in _OVERVIEW.items():
        names = aliases(kinds[kind]) or classes(kinds[kind])
        shown += [Text.assemble((kind, "bold"), (f", {len(examples)} of {len(names)}", "dim"))]
        shown += [_grid(examples, "bold cyan")]
    parts = ", ".join(kind for kind in kinds if kind not in _OVERVIEW)
    shown += [Text.assemble(("parts of algorithms and experiments: ", "bold"), parts), "", _grid(_MORE, "green")]
    return Group(*shown)


def _grid(lines: dict[str, str], style: str) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=True)
    table.add_column(style=style, no_wrap=True, min_width=17)
    table.add_column()
    for name, about in lines.items():
        table.add_row(f"  {name}", about)
    return table


def _describe(name: str, as_json: bool) -> None:
    """Show all parameters of a name or recipe, including those of its parts."""
    from duelrank.core.registry import walk

    part = _named(name)
    if isinstance(part, type):
        entry = _entry(name, part, None, _first_line(part))
        places: list[tuple[str, type[Part], Part | None]] = [("", part, None)]
    else:
        entry = _entry(name, type(part), repr(part), _about(part))
        places = [(".".join(path), type(inner), inner) for path, inner in walk(part)]
    entry["parameters"] = [each for place in places for each in _settings(*place)]
    if as_json:
        print_json(entry)
    else:
        out().print(_description(entry))


def _named(name: str) -> Part | type[Part]:
    """Return the part that a recipe describes, or its class if some parameters have no default."""
    from duelrank.core.errors import InvalidRecipe, UnknownName
    from duelrank.core.grammar import parse
    from duelrank.core.registry import Part, classes, names

    if name in classes():
        try:
            return parse(name, Part)
        except InvalidRecipe:
            return classes()[name]
    try:
        return parse(name, Part)
    except UnknownName:
        error, _, every = str(UnknownName.among("kind or part", name, [*_kinds(), *names()])).partition("known: ")
        kinds = f"kinds: {', '.join(_kinds())}; duelrank list --all lists all names" if every else ""
        raise UnknownName(error + kinds) from None


def _settings(place: str, cls: type[Part], part: Part | None) -> Iterator[dict[str, Any]]:
    """Describe each parameter that is not itself a part: its value, the allowed values, its meaning."""
    from duelrank.core.registry import Part, allowed

    meanings = _meanings(cls)
    for item in fields(cls):
        value = getattr(part, item.name) if part is not None else item.default
        if not isinstance(value, Part):
            default = None if value is MISSING else repr(value)
            about = meanings.get(item.name, "")
            yield {
                "name": item.name, "part": place, "class": cls.__name__, "default": default,
                "allowed": allowed(cls, item.name), "about": about,
            }  # fmt: skip


def _meanings(cls: type[Part]) -> dict[str, str]:
    """Return the description of each parameter from the docstrings of a class and its bases."""
    from duelrank.experiments.algorithms_page import sections

    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        text = sections(each).get("Parameters", "")
        for names, about in findall(r"^(\w+(?:, \w+)*)\n((?: +.*\n?|\n)+)", text, MULTILINE):
            found |= dict.fromkeys(names.split(", "), " ".join(about.split()))
    return found


def _description(entry: dict[str, Any]) -> RenderableType:
    shown: list[RenderableType] = [Text(entry["name"], style="bold cyan")]
    shown += [Text(entry["recipe"] or entry["name"], style="green"), Text(entry["about"]), ""]
    for (place, cls), settings in groupby(entry["parameters"], key=lambda each: (each["part"], each["class"])):
        table = Table.grid(padding=(0, 2, 0, 0), pad_edge=True)
        table.add_column(style="bold cyan", no_wrap=True)
        table.add_column()
        for each in settings:
            default = "required" if each["default"] is None else each["default"]
            table.add_row(
                f"  {each['name']}",
                Text.assemble((default, "green"), f"; {each['allowed']}", "\n", (each["about"], "dim")),
            )
        shown += [Text(f"{place}: {cls}" if place else cls, style="bold"), table, ""]
    return Group(*shown[:-1])


def _algorithms_page(results: Path | None) -> str:
    from duelrank.core.errors import MissingData
    from duelrank.experiments.algorithms_page import LeagueResults, algorithms_page, read_league

    if results is None:
        return algorithms_page(LeagueResults({}))
    try:
        return algorithms_page(read_league(results.read_text(encoding="utf-8")))
    except OSError as error:
        raise MissingData(f"{results} cannot be read: {error.strerror}") from None


def _kinds() -> dict[str, type[Part]]:
    from duelrank.algorithms import Algorithm, Remember
    from duelrank.core.registry import Collection
    from duelrank.datasets import Dataset
    from duelrank.evaluation import Estimator
    from duelrank.experiments import Experiment
    from duelrank.exploration import Exploration
    from duelrank.inference import Inference
    from duelrank.metrics import Metric
    from duelrank.multileaving import Multileaver
    from duelrank.projection import Examination, Projection
    from duelrank.representation import Representation, Scaling
    from duelrank.scoring import Scorer
    from duelrank.simulation import Baseline, Guarded, Logged
    from duelrank.updates import Update
    from duelrank.users import User

    return {
        "algorithms": Algorithm,
        "users": User,
        "datasets": Dataset,
        "representations": Representation,
        "scalings": Scaling,
        "multileavers": Multileaver,
        "metrics": Metric,
        "explorations": Exploration,
        "inferences": Inference,
        "projections": Projection,
        "examinations": Examination,
        "updates": Update,
        "scorers": Scorer,
        "memories": Remember,
        "experiments": Experiment,
        "guards": Guarded,
        "logs": Logged,
        "baselines": Baseline,
        "estimators": Estimator,
        "collections": Collection,
    }


def _entries(kind: type[Part]) -> list[dict[str, Any]]:
    from duelrank.core.registry import aliases, classes

    short = [_entry(name, type(part), repr(part), _about(part)) for name, part in aliases(kind).items()]
    return short + [_entry(name, cls, None, _first_line(cls)) for name, cls in classes(kind).items()]


def _entry(name: str, cls: type[Part], recipe: str | None, about: str) -> dict[str, Any]:
    return {"name": name, "recipe": recipe, "about": about, "parameters": _parameters(cls)}


def _parameters(cls: type[Part]) -> dict[str, str | None]:
    """Return the text of each parameter's default, or None if the parameter is required."""
    return {item.name: None if item.default is MISSING else repr(item.default) for item in fields(cls)}


def _about(part: Part) -> str:
    """Describe a short name; the first line of the class alone would not distinguish names of one class."""
    from duelrank.algorithms import Projected, Remembered, Represented
    from duelrank.core.registry import spell
    from duelrank.datasets import Imported, info
    from duelrank.users import Preset

    if isinstance(part, Projected):
        return f"{spell(part.base)} with projected gradients"
    if isinstance(part, Represented):
        return f"{spell(part.base)} that sees {spell(part.representation)}"
    if isinstance(part, Remembered):
        return f"{spell(part.base)} that remembers what the users of each query chose"
    if isinstance(part, Preset):
        user = part.for_grades(3)
        return (
            f"for labels 0, 1, 2: click probability {user.click_probability}, stop probability {user.stop_probability}"
        )
    if isinstance(part, Imported):
        known = info(part.name)
        title = known.entry.title if known.entry else "imported by the user"
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
