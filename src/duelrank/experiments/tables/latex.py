"""Writes tables as LaTeX, in the layout of the paper; they need the packages booktabs and multirow."""

from __future__ import annotations

from collections.abc import Iterator

from duelrank.experiments.tables.table import Cell, Table

__all__ = ["to_latex"]

_SPECIAL = {
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

_CODE = {
    "(": r"(\allowbreak{}",
    ",": r",\allowbreak{}",
    "'": r"\textquotesingle{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}


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
    caption = escape(" ".join([f"{table.title}.", *table.notes]))
    names = "ll" if table.section_head else "l"
    lines = [
        r"% needs \usepackage{booktabs,multirow,textcomp} and \usepackage[T1]{fontenc}",
        r"\begin{table*}[t]",
        r"  \centering\small",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{_key(table.name)}}}",
        r"  \smallskip",
        rf"  \begin{{tabular}}{{{names}{'r' * len(table.columns)}}}",
        r"    \toprule",
        *(f"    {line}" for line in _head(table)),
        *(f"    {line}" for line in _body(table)),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(f"  {line}" for line in _recipes(table)),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _key(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _head(table: Table) -> Iterator[str]:
    names = [table.section_head, table.row_head] if table.section_head else [table.row_head]
    if any(column.group for column in table.columns):
        spans = [rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{escape(group)}}}}}" for group, width in table.groups()]
        yield rf"{' & '.join([*('' for _ in names), *spans])} \\"
        start = len(names) + 1
        for group, width in table.groups():
            if group:
                yield rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
            start += width
    yield rf"{' & '.join(escape(head) for head in (*names, *(column.head for column in table.columns)))} \\"


def _body(table: Table) -> Iterator[str]:
    first, last = (2 if table.section_head else 1), (2 if table.section_head else 1) + len(table.columns)
    for section, rows in table.sections():
        yield r"\midrule"
        name = [rf"\multirow{{{len(rows)}}}{{*}}{{{escape(section)}}}"] if table.section_head else []
        for before, row in zip([None, *rows], rows, strict=False):
            if before and before.family != row.family:
                yield rf"\cmidrule(lr){{{first}-{last}}}"
            yield rf"{' & '.join([*name, escape(row.name), *map(_cell, row.cells)])} \\"
            name = [""] if table.section_head else []


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    shown = rf"\textbf{{{text}}}" if cell.style == "strong" and text else text
    return shown + (rf" {{\tiny {escape(cell.detail)}}}" if cell.detail else "")


def _recipes(table: Table) -> Iterator[str]:
    if table.recipes:
        yield r"\par\smallskip"
        yield r"\begin{minipage}{\textwidth}\footnotesize\raggedright"
        for label, recipe in table.recipes:
            yield rf"  {escape(label)}: \texttt{{{_code(recipe)}}}\par"
        yield r"\end{minipage}"


def _code(recipe: str) -> str:
    """Return a recipe with straight quotes and possible line breaks."""
    text = escape(" ".join(recipe.split()))
    for letter, written in _CODE.items():
        text = text.replace(letter, written)
    return text
