"""Writes docs/algorithms.md, the page of algorithms and their parts, from the registry and a league table."""

from __future__ import annotations

import csv
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields

from duelrank.algorithms import Algorithm, Projected, Remember, Represented
from duelrank.core.errors import InvalidValue
from duelrank.core.registry import Part, aliases, classes, spell, walk
from duelrank.exploration import Exploration
from duelrank.inference import Inference
from duelrank.multileaving import Multileaver
from duelrank.projection import Examination, Projection
from duelrank.representation import Representation
from duelrank.scoring import Scorer
from duelrank.updates import Update

_STAGES: dict[str, type[Part]] = {
    "Representations": Representation,
    "Explorations": Exploration,
    "Multileavers": Multileaver,
    "Inferences": Inference,
    "Projections": Projection,
    "Examinations": Examination,
    "Updates": Update,
    "Scorers": Scorer,
    "Memories": Remember,
}
_OPENING = """# Algorithms and their parts

`duelrank list --markdown` generates this page from the registry and a league table: change the docstrings, not the page.
A [recipe](recipes.md) can name everything on this page, and any part can be replaced by another of its kind.
"""
_DIGITS = {"online": 1, "offline": 3}


@dataclass(frozen=True)
class LeagueResults:
    """The results of a league: (algorithm, user, measure) → mean, and the data set, metric and number of runs."""

    means: dict[tuple[str, str, str], float]
    dataset: str = ""
    metric: str = ""
    runs: str = ""

    @property
    def users(self) -> list[str]:
        """The users, in order."""
        return list(dict.fromkeys(user for _, user, _ in self.means))


def read_league(text: str) -> LeagueResults:
    """Read the CSV file of a league table."""
    try:
        lines = list(csv.DictReader(text.splitlines()))
        means = {(line["algorithm"], line["user"], line["measure"]): float(line["mean"]) for line in lines}
        return LeagueResults(means, lines[0]["dataset"], lines[0]["metric"], lines[0]["runs"])
    except (LookupError, ValueError) as error:
        raise InvalidValue(
            f"this is not the CSV file of a league table: {error!r} is missing or not a number"
        ) from None


def algorithms_page(league: LeagueResults) -> str:
    """Return the page: the league, then the docstrings of every algorithm and every part.

    Algorithms without results are listed, too.
    """
    known = aliases(Algorithm)
    parts = [_OPENING, _overview(known, league)]
    parts += ["## Algorithms\n", *(_algorithm(name, known) for name in known if not _is_projection(name, known))]
    for title, kind in _STAGES.items():
        parts += [f"## {title}\n", *(_part(name, cls) for name, cls in classes(kind).items())]
    return "\n".join(part for part in parts if part)


def sections(cls: type) -> dict[str, str]:
    """Split a numpy-style docstring into its summary, its body and its named sections."""
    text = inspect.cleandoc(cls.__doc__ or "")
    summary, _, rest = text.partition("\n")
    pieces = re.split(r"^(\w[\w ]*)\n-{3,}\n", rest, flags=re.MULTILINE)
    named = dict(zip(pieces[1::2], (body.strip() for body in pieces[2::2]), strict=True))
    return {"Summary": summary, "Description": pieces[0].strip(), **named}


def _is_projection(name: str, known: dict[str, Algorithm]) -> bool:
    return name.endswith("-dsp") and known.get(name.removesuffix("-dsp")) is not None


def _overview(known: dict[str, Algorithm], league: LeagueResults) -> str:
    users = league.users
    heads = [f"{measure} {user}" for measure in _DIGITS for user in users]
    order = sorted(known, key=lambda name: -sum(league.means.get((name, user, "online"), 0.0) for user in users))
    lines = [["algorithm", "", *heads], ["---", "---", *("---:" for _ in heads)]]
    lines += [[_link(name, known), _about(known[name]), *_numbers(name, league)] for name in order]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (_source(league) if users else "")


def _source(league: LeagueResults) -> str:
    command = f"duelrank reproduce league --datasets {league.dataset}"
    return f"""
Means of {league.runs} runs on {league.dataset} (`{command}`), best online first. Online: the discounted
sum of {league.metric} over the lists shown while learning; offline: {league.metric} of the final weights on test queries. Each
algorithm has its own defaults. Click bandits have no weights: offline they are a random order.
"""


def _numbers(name: str, league: LeagueResults) -> Iterator[str]:
    for measure, digits in _DIGITS.items():
        for user in league.users:
            mean = league.means.get((name, user, measure))
            yield "" if mean is None else f"{mean:.{digits}f}"


def _link(name: str, known: dict[str, Algorithm]) -> str:
    return f"`{name}`" if _is_projection(name, known) else f"[`{name}`](#{name})"


def _about(algorithm: Algorithm) -> str:
    if isinstance(algorithm, Projected):
        return f"`{spell(algorithm.base)}` with projected gradients"
    if isinstance(algorithm, Represented):
        return f"`{spell(algorithm.base)}` that sees `{spell(algorithm.representation)}`"
    return sections(type(algorithm))["Summary"].split(":")[0].rstrip(".")


def _algorithm(name: str, known: dict[str, Algorithm]) -> str:
    algorithm = known[name]
    inside = [(".".join(path), part) for path, part in walk(algorithm) if path]
    listed = [f"- {place}: {_named(part)}" for place, part in inside]
    recipe = f"`{algorithm!r}`" + (f", projected: `{name}-dsp`" if f"{name}-dsp" in known else "")
    return "\n".join(
        [f"### {name}\n", f"{recipe}\n", _body(type(algorithm)), *(["Parts:\n", *listed, ""] if listed else [])]
    )


def _named(part: Part) -> str:
    """Return a part with a link to its section; a projected algorithm has no section, its parts follow."""
    if isinstance(part, Projected):
        return f"`{spell(part)}`"
    named = spell(part) if isinstance(part, Algorithm) else type(part).__name__.lower()
    return f"[`{spell(part)}`](#{named.partition('(')[0]})"


def _part(name: str, cls: type[Part]) -> str:
    return f"### {name}\n\n{_body(cls)}"


def _body(cls: type[Part]) -> str:
    """Return the docstring and parameters of a class as Markdown."""
    said = sections(cls)
    pieces = [said["Summary"], said["Description"], _parameters(cls, said.get("Parameters", ""))]
    if "References" in said:
        pieces.append("Reference: " + " ".join(said["References"].split()))
    return "\n\n".join(_code(piece) for piece in pieces if piece) + "\n"


def _parameters(cls: type[Part], text: str) -> str:
    """Return a list of the parameters that a class documents, each with its default."""
    defaults = {item.name: item.default for item in fields(cls)}
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
    lines = []
    for entry in filter(None, entries):
        names, _, meaning = entry.partition("\n")
        given = ", ".join(f"`{name}`{_default(defaults.get(name, MISSING))}" for name in names.split(", "))
        lines.append(f"- {given}: {' '.join(meaning.split())}")
    return "\n".join(lines)


def _default(value: object) -> str:
    return "" if value is MISSING else f" = `{spell(value) if isinstance(value, Part) else repr(value)}`"


def _code(text: str) -> str:
    """Replace numpy's double backticks by Markdown's single ones."""
    return text.replace("``", "`")
