"""Defines the table model, and writes tables as Markdown, CSV, LaTeX, HTML and to the terminal."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from duelrank.core.registry import counted
from duelrank.simulation.run import data_frame

if TYPE_CHECKING:
    import pandas
    from jinja2 import Template
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

Style = Literal["", "strong", "up", "down"]
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{NO-BREAK SPACE}": "~",
    "−": "$-$",
    "–": "--",
    "†": r"$^{\dagger}$",
    "‡": r"$^{\ddagger}$",
    "µ": r"$\mu$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

_LATEX_CODE = {
    "(": r"(\allowbreak{}",
    ",": r",\allowbreak{}",
    "'": r"\textquotesingle{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}
_GAP = 2  # between columns
_STYLES = {"strong": "bold green", "up": "green", "down": "red", "": ""}
_Columns = Sequence[int]


@dataclass(frozen=True)
class Cell:
    """One cell: its printed text, and its unrounded values.

    Parameters
    ----------
    text, detail
        The printed text; the detail, such as a standard deviation in brackets, follows it in smaller print.
    style
        "strong" for the best of its column, "up" and "down" for changes.
    record
        Names and unrounded numbers, which become a line of CSV and a row of a data frame; None if another cell has them.
    """

    text: str = ""
    detail: str = ""
    style: Style = ""
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Column:
    """A column; adjacent columns of the same group share a heading.

    Parameters
    ----------
    spare
        Where a terminal is too narrow, columns with the highest number are left out first; those with 0 are always shown.
    """

    head: str
    group: str = ""
    spare: int = 0


@dataclass(frozen=True)
class Row:
    """A row: its name, such as an algorithm, and one cell per column.

    Parameters
    ----------
    section
        The section that the row belongs to, such as a user.
    family
        Rows of a family, such as an algorithm and its projections, are printed close together.
    """

    name: str
    cells: tuple[Cell, ...]
    section: str = ""
    family: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    name
        The stem of file names, such as "online".
    columns
        All columns except the first, which contains the names of the rows.
    row_head, section_head
        The headings of the names of rows and of sections.
    notes
        Sentences that explain the table.
    recipes
        The exact recipe of every label.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70"),)), Row("dbgd", (Cell("30"),))))
    >>> {row.name: row.cells[0].text for row in table.rows}
    {'mgd': '70', 'dbgd': '30'}
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    row_head: str = "algorithm"
    section_head: str = ""
    recipes: tuple[tuple[str, str], ...] = ()

    def heads(self) -> list[str]:
        """Return the headings for formats with one heading line: the first column of a group includes the group's name."""
        befores = ["", *(column.group for column in self.columns)]
        return [
            f"{column.group}: {column.head}" if column.group and column.group != before else column.head
            for before, column in zip(befores, self.columns, strict=False)
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Return the group headings, including empty ones, each with its number of columns."""
        return [(group, len(list(columns))) for group, columns in groupby(self.columns, lambda c: c.group)]

    def sections(self) -> list[tuple[str, list[Row]]]:
        """Return the rows by section."""
        return [(section, list(rows)) for section, rows in groupby(self.rows, lambda row: row.section)]

    def records(self) -> list[dict[str, Any]]:
        """Return the unrounded numbers of all cells, one record per cell."""
        return [dict(cell.record) for row in self.rows for cell in row.cells if cell.record is not None]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame with a row per cell."""
        return data_frame(self.records())

    def __repr__(self) -> str:
        return f"Table({self.title!r}: {counted(len(self.rows), 'row')}, {counted(len(self.columns), 'column')})"

    def to_markdown(self) -> str:
        """Return the table as Markdown."""
        return to_markdown(self)

    def to_html(self) -> str:
        """Return the table as HTML."""
        return to_html(self)

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the packages booktabs and multirow."""
        return to_latex(self)

    def to_csv(self) -> str:
        """Return the unrounded numbers as CSV, a line per cell."""
        return to_csv(self)

    __str__ = to_markdown
    _repr_html_ = to_html


def to_markdown(table: Table) -> str:
    """Return a table, its notes, and the exact recipe of every label.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row, to_markdown
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70", "3"),)), Row("dbgd", (Cell("30", "2"),))))
    >>> print(to_markdown(table))
    | algorithm | µs |
    | --- | ---: |
    | mgd | 70 3 |
    | dbgd | 30 2 |
    """
    sections = [table.section_head] if table.section_head else []
    heads = [*sections, table.row_head, *table.heads()]
    lines = [
        _markdown_line(map(_markdown_escape, heads)),
        _markdown_line([*("---" for _ in (*sections, "")), *("---:" for _ in table.columns)]),
    ]
    for section, rows in table.sections():
        first = [_markdown_escape(section)] if sections else []
        for row in rows:
            lines.append(_markdown_line([*first, _markdown_escape(row.name), *map(_markdown_cell, row.cells)]))
            first = [""] if sections else []
    parts = ["\n".join(lines), _markdown_escape(" ".join(table.notes)), _markdown_recipes(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_escape(text: str) -> str:
    """Escape text for Markdown, including Markdown tables."""
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", text)


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = f"**{_markdown_escape(cell.text)}**" if cell.style == "strong" and cell.text else _markdown_escape(cell.text)
    return f"{text} {_markdown_escape(cell.detail)}".strip()


def _markdown_recipes(table: Table) -> str:
    return "\n".join(f"- {_markdown_escape(label)}: {_markdown_code(recipe)}" for label, recipe in table.recipes)


def _markdown_code(text: str) -> str:
    """Return a code span whose fence is longer than any run of backticks inside."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}"


def to_csv(table: Table) -> str:
    """Return one line per cell; missing values, such as the change of the baseline itself, are empty.

    Examples
    --------
    >>> from duelrank.experiments import compare, performance_table, summarise
    >>> from duelrank.experiments.tables import to_csv
    >>> results = compare(["mgd", "mgd-dsp"], "synthetic(n_queries=10)", "perfect", runs=2, impressions=50, workers=1)
    >>> text = to_csv(performance_table(summarise(results, "offline")))
    >>> len(text.splitlines())  # with the names of the columns
    3
    """
    records = table.records()
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def to_html(table: Table) -> str:
    """Return a table as HTML; all texts in it are escaped.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row, to_html
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70", "3"),)), Row("dbgd", (Cell("30", "2"),))))
    >>> to_html(table).count("<tr")
    3
    """
    grouped = any(column.group for column in table.columns)
    return template("table.html.jinja").render(table=table, grouped=grouped)


@cache
def template(name: str) -> Template:
    """Return an HTML template of this package by its file name."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("duelrank.experiments")
    return Environment(loader=loader, autoescape=True, trim_blocks=True).get_template(name)


def to_latex(table: Table) -> str:
    """Return a ``table*`` with its caption, and below it the exact recipe of every label.

    Examples
    --------
    >>> from duelrank.experiments import Table
    >>> from duelrank.experiments.tables import Cell, Column, Row, to_latex
    >>> table = Table("speed", "Speed", (Column("µs"),), (Row("mgd", (Cell("70", "3"),)), Row("dbgd", (Cell("30", "2"),))))
    >>> to_latex(table).count("&")
    3
    """
    caption = _latex_escape(" ".join([f"{table.title}.", *table.notes]))
    key = re.sub(r"\W|_", "-", table.name)
    names = "ll" if table.section_head else "l"
    lines = [
        r"% needs \usepackage{booktabs,multirow,textcomp} and \usepackage[T1]{fontenc}",
        r"\begin{table*}[t]",
        r"  \centering\small",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{key}}}",
        r"  \smallskip",
        rf"  \begin{{tabular}}{{{names}{'r' * len(table.columns)}}}",
        r"    \toprule",
        *(f"    {line}" for line in _latex_head(table)),
        *(f"    {line}" for line in _latex_body(table)),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(f"  {line}" for line in _latex_recipes(table)),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _latex_escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_head(table: Table) -> Iterator[str]:
    names = [table.section_head, table.row_head] if table.section_head else [table.row_head]
    if any(column.group for column in table.columns):
        spans = [
            rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{_latex_escape(group)}}}}}" for group, width in table.groups()
        ]
        yield rf"{' & '.join([*('' for _ in names), *spans])} \\"
        start = len(names) + 1
        for group, width in table.groups():
            if group:
                yield rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
            start += width
    yield rf"{' & '.join(_latex_escape(head) for head in (*names, *(column.head for column in table.columns)))} \\"


def _latex_body(table: Table) -> Iterator[str]:
    first, last = (2 if table.section_head else 1), (2 if table.section_head else 1) + len(table.columns)
    for section, rows in table.sections():
        yield r"\midrule"
        name = [rf"\multirow{{{len(rows)}}}{{*}}{{{_latex_escape(section)}}}"] if table.section_head else []
        for before, row in zip([None, *rows], rows, strict=False):
            if before and before.family != row.family:
                yield rf"\cmidrule(lr){{{first}-{last}}}"
            yield rf"{' & '.join([*name, _latex_escape(row.name), *map(_latex_cell, row.cells)])} \\"
            name = [""] if table.section_head else []


def _latex_cell(cell: Cell) -> str:
    text = _latex_escape(cell.text)
    shown = rf"\textbf{{{text}}}" if cell.style == "strong" and text else text
    return shown + (rf" {{\tiny {_latex_escape(cell.detail)}}}" if cell.detail else "")


def _latex_recipes(table: Table) -> Iterator[str]:
    if table.recipes:
        yield r"\par\smallskip"
        yield r"\begin{minipage}{\textwidth}\footnotesize\raggedright"
        for label, recipe in table.recipes:
            yield rf"  {_latex_escape(label)}: \texttt{{{_latex_code(recipe)}}}\par"
        yield r"\end{minipage}"


def _latex_code(recipe: str) -> str:
    """Return a recipe with straight quotes and possible line breaks."""
    text = _latex_escape(" ".join(recipe.split()))
    for letter, written in _LATEX_CODE.items():
        text = text.replace(letter, written)
    return text


def to_terminal(table: Table, width: int) -> RenderableType:
    """Return a table that fits into ``width`` characters.

    If it is too wide, spare columns are left out; if that is not enough, it is split into blocks. Long names take several lines.
    """
    from rich.console import Group
    from rich.text import Text

    longest = max([len(table.row_head), *(len(name) for row in table.rows for name in (row.name, row.section))])
    names = min(longest, max(16, width // 3))
    table = _without_spares(table, width - names - 2)
    blocks = [_terminal_block(table, columns, names) for columns in _blocks(table, width - names - 2)]
    notes = Text(" ".join(table.notes).replace("Bold:", "*:").replace("are bold", "have a *"), style="dim")
    recipes = [Text.assemble((f"{label}: ", "bold dim"), (recipe, "dim")) for label, recipe in table.recipes]
    return Group(Text(table.title, style="bold"), *blocks, notes, *recipes, "")


def _without_spares(table: Table, room: int) -> Table:
    """Leave out spare columns, and the notes on them, until all others fit side by side; keep all if they never do."""
    for level in range(max((column.spare for column in table.columns), default=0), -1, -1):
        kept = [number for number, column in enumerate(table.columns) if column.spare <= level]
        if sum(_GAP + _terminal_width(table, number) for number in kept) <= room:
            break
    else:
        return table
    left_out = dict.fromkeys(column.head for column in table.columns if column.spare > level)
    notes = [note for note in table.notes if not note.startswith(tuple(f"{head}: " for head in left_out))]
    return replace(
        table,
        columns=tuple(table.columns[number] for number in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[number] for number in kept)) for row in table.rows),
        notes=(*notes, *([f"A wider terminal also shows {' and '.join(left_out)}."] if left_out else [])),
    )


def _blocks(table: Table, room: int) -> Iterator[_Columns]:
    """Fill blocks with columns; columns of a group stay together if they fit into one block."""
    block: list[int] = []
    used, start = 0, 0
    for _, size in table.groups():
        group = list(range(start, start + size))
        start += size
        widths = [_GAP + _terminal_width(table, number) for number in group]
        pieces = (
            [(group, sum(widths))] if sum(widths) <= room else [([n], w) for n, w in zip(group, widths, strict=True)]
        )
        for piece, wide in pieces:
            if block and used + wide > room:
                yield block
                block, used = [], 0
            block, used = [*block, *piece], used + wide
    if block:
        yield block


def _terminal_width(table: Table, number: int) -> int:
    column = table.columns[number]
    return max(
        len(column.head),
        *(len(_terminal_text(row.cells[number])) for row in table.rows),
        *map(len, column.group.split()),
    )


def _terminal_block(table: Table, numbers: _Columns, names: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    block = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    block.add_column(table.row_head, width=names, overflow="fold", style="cyan")
    columns = [table.columns[number] for number in numbers]
    for before, column in zip([None, *columns], columns, strict=False):
        block.add_column(_terminal_head(column, before), justify="right", no_wrap=True)
    for section, rows in table.sections():
        if section:
            block.add_row(Text(section, style="bold"))
        for row in rows:
            block.add_row(Text(row.name), *(_terminal_cell(row.cells[number]) for number in numbers))
        block.add_section()
    return block


def _terminal_head(column: Column, before: Column | None) -> str:
    """Return the column heading, below the heading of its group."""
    if not column.group:
        return column.head
    begins = before is None or before.group != column.group
    return "\n".join([*(column.group.split() if begins else []), column.head])


def _terminal_text(cell: Cell) -> str:
    return f"{'*' if cell.style == 'strong' else ''}{cell.text} {cell.detail}".rstrip()


def _terminal_cell(cell: Cell) -> Text:
    from rich.text import Text

    mark = "*" if cell.style == "strong" and cell.text else ""
    return Text.assemble((mark + cell.text, _STYLES[cell.style]), (f" {cell.detail}" if cell.detail else "", "dim"))
