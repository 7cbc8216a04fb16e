"""Writes reports: tables and figures as files, and ``report.html``, a self-contained page without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from duelrank.algorithms import Algorithm
from duelrank.core.files import write_bytes
from duelrank.core.registry import Part, spell
from duelrank.experiments.figures import narrow, save, to_svg
from duelrank.experiments.tables import Table, template, to_csv, to_html, to_latex, to_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The research questions of the paper, quoted.
QUESTIONS = {
    "Q1": "Can our proposed Document Space Projection method consistently improve the performance of best-performing "
    "DBGD-type OL2R algorithms?",
    "Q2": "Do gradients rectified by our document space projection explore the gradient space more efficiently?",
    "Q3": "How do different hyper-parameter settings alter the performance of our document space projection?",
}

_FORMATS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its file name and its caption.

    Parameters
    ----------
    narrow
        The same for narrow screens; None if there is only one.
    """

    name: str
    figure: Figure
    caption: str
    narrow: Figure | None = None

    @classmethod
    def drawn(cls, name: str, caption: str, draw: Callable[[], Figure]) -> Picture:
        """Draw a figure for wide and for narrow screens."""
        return cls(name, draw(), caption, narrow(draw))


@dataclass(frozen=True, eq=False)
class Section:
    """One section of a report, which answers one question.

    Parameters
    ----------
    question
        The question, such as one of `QUESTIONS`; may be empty.
    text
        Paragraphs, separated by blank lines.
    recipes
        The label of each algorithm and the algorithm itself.
    answer
        The answer, in paragraphs separated by blank lines; may be empty. That of the first section opens the report.
    """

    title: str
    question: str = ""
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Picture, ...] = ()
    recipes: tuple[tuple[str, Algorithm], ...] = ()
    answer: str = ""

    @property
    def paragraphs(self) -> list[str]:
        """The paragraphs of the text."""
        return _paragraphs(self.text)

    @property
    def answers(self) -> list[str]:
        """The paragraphs of the answer."""
        return _paragraphs(self.answer)


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


@dataclass(frozen=True, eq=False)
class Report:
    """The report of a suite: its sections and the `provenance` of its results.

    Parameters
    ----------
    title
        The heading.
    sections
        One for each experiment.
    provenance
        What the results came from, such as versions and the machine.

    Examples
    --------
    >>> from duelrank.experiments import Report, Section
    >>> report = Report("Shoes", (Section("Speed", "How fast is it?"),), {"commit": "1234567"})
    >>> [section.title for section in report.sections]
    ['Speed']
    """

    title: str
    sections: tuple[Section, ...]
    provenance: Mapping[str, str]

    @property
    def recipes(self) -> dict[str, Algorithm]:
        """The algorithms of all sections, by label."""
        return {label: algorithm for section in self.sections for label, algorithm in section.recipes}

    def write(self, folder: Path) -> Path:
        """Write every table (Markdown, CSV, LaTeX), every figure (SVG, PNG) and ``report.html``; return the path of the page.

        Each file is written atomically.
        """
        for name, table in self.tables().items():
            for ending, to_text in _FORMATS.items():
                write_bytes(folder / f"{file_stem(name)}.{ending}", to_text(table).encode())
        for picture in self._pictures():
            save(picture.figure, folder / "figures", file_stem(picture.name))
        path = folder / "report.html"
        write_bytes(path, self.to_html().encode())
        return path

    def to_html(self) -> str:
        """Return the HTML page."""
        style = files("duelrank.experiments").joinpath("templates", "report.css").read_text(encoding="utf-8")
        numbers = {picture: number for number, picture in enumerate(self._pictures(), start=1)}
        return template("report.html.jinja").render(
            report=self,
            style=style,
            lead=next(self._pictures(), None),  # a report opens with a picture
            svgs=lambda picture: list(_inline(picture, f"f{numbers[picture]}")),
            to_html=to_html,
            outline=outline,
            spell=spell,
        )

    def _pictures(self) -> Iterator[Picture]:
        yield from (picture for section in self.sections for picture in section.figures)

    def tables(self) -> dict[str, Table]:
        """Return all tables by unique file names."""
        named: dict[str, Table] = {}
        for table in (table for section in self.sections for table in section.tables):
            if table not in named.values():
                same = sum(known.name == table.name for known in named.values())
                named[f"{table.name}-{same + 1}" if same else table.name] = table
        return named


def outline(part: Part, name: str = "", depth: int = 0) -> Iterator[tuple[int, str, str, str]]:
    """Write a recipe out with all parts and parameters, including those at their defaults.

    Yields for each part its depth, the name of its field, its class and its own parameters.

    Examples
    --------
    >>> from duelrank import parse
    >>> for line in outline(parse("mgd").exploration):
    ...     print(line)
    (0, '', 'UniformSphere', 'n_candidates=9')
    """
    values = {item.name: getattr(part, item.name) for item in fields(part)}
    plain = ", ".join(f"{field}={value!r}" for field, value in values.items() if not isinstance(value, Part))
    yield depth, name, type(part).__name__, plain
    for field, value in values.items():
        if isinstance(value, Part):
            yield from outline(value, field, depth + 1)


def file_stem(name: str) -> str:
    """Return a valid file name, without suffix, for a name."""
    return re.sub(r"[^\w.,()=-]+", "-", name).strip("-.")


def _inline(picture: Picture, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the class of screens and the SVG of each form of a picture."""
    yield "wide" if picture.narrow else "", _embedded(picture.figure, picture.caption, f"{prefix}-")
    if picture.narrow:
        yield "narrow", _embedded(picture.narrow, picture.caption, f"{prefix}n-")


def _embedded(figure: Figure, caption: str, prefix: str) -> str:
    """Return a figure as SVG that can be embedded in a page.

    Ids get a unique prefix; the style sheet, which would apply to the whole page, becomes inherited properties; the size adapts
    to the page.
    """
    svg = to_svg(figure)
    body = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{prefix}', body)
    body = body.replace("url(#", f"url(#{prefix}")
    head, rest = body.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    size = f'{box[0] if box else ""} style="stroke-linejoin:round;stroke-linecap:butt"'
    lines = "\n".join(line for line in rest.splitlines() if line.strip())
    return f'<svg {size} role="img" aria-label="{escape(caption)}">{lines}'
