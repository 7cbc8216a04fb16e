"""One file that tells the whole experiment: ``report.html``, which needs no network, no script and no other file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from duelrank.experiments.atomically import write_bytes

__all__ = ["QUESTIONS", "Picture", "Section", "write_report"]

#: What the paper asks of its experiments, in its own words.
QUESTIONS = {
    "Q1": "Can our proposed Document Space Projection method consistently improve the performance of best-performing "
    "DBGD-type OL2R algorithms?",
    "Q2": "Do gradients rectified by our document space projection explore the gradient space more efficiently?",
    "Q3": "How do different hyper-parameter settings alter the performance of our document space projection?",
}


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, with the sentence that says what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """One experiment.

    Parameters
    ----------
    question
        What it answers, such as one of `QUESTIONS`; may be empty.
    text
        Paragraphs, separated by blank lines.
    tables
        As `to_html` makes them; they and the figures are taken as they are, everything else is escaped.
    figures
        As `to_svg` makes them, with captions.
    recipes
        The label of each algorithm and its exact recipe.
    """

    title: str
    question: str = ""
    text: str = ""
    tables: tuple[str, ...] = ()
    figures: tuple[Picture, ...] = ()
    recipes: tuple[tuple[str, str], ...] = ()


def write_report(folder: Path, title: str, sections: Sequence[Section], facts: Mapping[str, str]) -> Path:
    """Write ``report.html`` into a folder, whole or not at all, and return its path.

    Parameters
    ----------
    facts
        What else the numbers depend on: versions, machine, seeds, time; as `facts_of` collects them.
    """
    path = folder / "report.html"
    write_bytes(path, ("\n".join(_page(title, sections, facts)) + "\n").encode())
    return path


def _page(title: str, sections: Sequence[Section], facts: Mapping[str, str]) -> Iterator[str]:
    style = files("duelrank.experiments").joinpath("report.css").read_text(encoding="utf-8")
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>"
    yield f"<header>\n<h1>{escape(title)}</h1>"
    yield from _contents(sections)
    yield "</header>\n<main>"
    for number, section in enumerate(sections, start=1):
        yield from _section(section, number)
    yield from _facts(facts)
    yield "</main>\n</body>\n</html>"


def _contents(sections: Sequence[Section]) -> Iterator[str]:
    if len(sections) > 1:
        yield '<nav aria-label="Contents">\n<ol>'
        for number, section in enumerate(sections, start=1):
            yield f'<li><a href="#section-{number}">{escape(section.title)}</a></li>'
        yield "</ol>\n</nav>"


def _section(section: Section, number: int) -> Iterator[str]:
    yield f'<section id="section-{number}" aria-labelledby="title-{number}">'
    yield f'<h2 id="title-{number}">{escape(section.title)}</h2>'
    if section.question:
        yield f'<p class="question">{escape(section.question)}</p>'
    yield from (f"<p>{escape(part.strip())}</p>" for part in re.split(r"\n\s*\n", section.text) if part.strip())
    yield from section.tables
    for place, picture in enumerate(section.figures, start=1):
        caption = escape(picture.caption)
        yield f'<figure>\n<div class="scroll card" role="region" tabindex="0" aria-label="{caption}">'
        yield _inline(picture.svg, f"s{number}f{place}-", picture.caption)
        yield f"</div>\n<figcaption>{caption}</figcaption>\n</figure>"
    if section.recipes:
        yield "<h3>Recipes</h3>"
        yield from _pairs(section.recipes, "recipes", "code")
    yield "</section>"


def _facts(facts: Mapping[str, str]) -> Iterator[str]:
    if facts:
        yield '<section id="facts" aria-labelledby="facts-title">\n<h2 id="facts-title">How this was made</h2>'
        yield from _pairs(tuple(facts.items()), "facts", "span")
        yield "</section>"


def _pairs(pairs: Sequence[tuple[str, str]], kind: str, tag: str) -> Iterator[str]:
    yield f'<dl class="{kind}">'
    yield from (f"<div><dt>{escape(name)}</dt><dd><{tag}>{escape(text)}</{tag}></dd></div>" for name, text in pairs)
    yield "</dl>"


def _inline(svg: str, prefix: str, description: str) -> str:
    """Return an SVG document as a part of a page.

    Ids are made unique by a prefix, its style sheet, which would reach the whole page, becomes inherited properties, and its
    size follows that of the page.
    """
    body = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{prefix}', body)
    body = body.replace("url(#", f"url(#{prefix}")
    head, rest = body.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    look = f'{box[0] if box else ""} style="stroke-linejoin:round;stroke-linecap:butt"'
    lines = "\n".join(line for line in rest.splitlines() if line.strip())
    return f'<svg {look} role="img" aria-label="{escape(description)}">{lines}'
