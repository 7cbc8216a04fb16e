"""Tables in LaTeX, in the form of the paper's; the packages booktabs and multirow are needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from duelrank.experiments.rendering import words
from duelrank.experiments.rendering.words import Labels
from duelrank.experiments.tables import Cell, Table, TableRow

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
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

_CODE = {
    "(": r"(\allowbreak{}",
    ",": r",\allowbreak{}",
    "'": r"\textquotesingle{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
}


def to_latex(table: Table, labels: Labels | None = None, digits: int | None = None) -> str:
    """Write a ``table*`` with its caption, and below it the exact recipe behind every label.

    Parameters
    ----------
    labels
        From a recipe, user or data set to the short name to print for it.
    digits
        Decimals; without it 1 for online and 3 for offline numbers, as in the paper.
    """
    decimals = words.digits_of(table.measure, digits)
    caption = escape(f"{words.title(table)}. {' '.join(words.explanation(table, labels))}")
    heads = ["User", "Algorithm", *(rf"\textbf{{{escape(words.name(d, labels))}}}" for d in table.datasets)]
    lines = [
        r"% needs \usepackage{booktabs,multirow,textcomp} and \usepackage[T1]{fontenc}",
        r"\begin{table*}[t]",
        r"  \centering\small",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{table.measure}}}",
        r"  \smallskip",
        rf"  \begin{{tabular}}{{ll{'l' * len(table.datasets)}}}",
        r"    \toprule",
        rf"    {' & '.join(heads)} \\",
        *(f"    {line}" for line in _body(table, labels, decimals)),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(f"  {line}" for line in _recipes(table, labels)),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _body(table: Table, labels: Labels | None, digits: int) -> Iterator[str]:
    last = 2 + len(table.datasets)
    for user, group in groupby(table.rows, lambda row: row.user):
        rows = list(group)
        yield r"\midrule"
        first = rf"\multirow{{{len(rows)}}}{{*}}{{{escape(words.user_name(user, labels))}}}"
        for before, row in zip([None, *rows], rows, strict=False):
            if before and not _same_family(before, row):
                yield rf"\cmidrule(lr){{2-{last}}}"
            cells = [_cell(cell, digits) for cell in row.cells]
            yield rf"{' & '.join([first, escape(words.name(row.algorithm, labels)), *cells])} \\"
            first = ""


def _same_family(one: TableRow, other: TableRow) -> bool:
    return (one.base or one.algorithm) == (other.base or other.algorithm)


def _cell(cell: Cell | None, digits: int) -> str:
    if cell is None:
        return "--"
    mean, change = escape(words.number(cell.value.mean, digits)), escape(words.change(cell))
    spread = rf"{{\tiny {escape(words.deviation(cell.value, digits))}}}" if cell.value.std is not None else ""
    return " ".join(filter(None, [rf"\textbf{{{mean}}}" if cell.best else mean, spread, change and f"({change})"]))


def _recipes(table: Table, labels: Labels | None) -> Iterator[str]:
    entries = words.listed(table.algorithms, labels)
    if entries:
        yield r"\par\smallskip"
        yield r"\begin{minipage}{\textwidth}\footnotesize\raggedright"
        for label, recipe in entries:
            yield rf"  {escape(label)}: \texttt{{{_code(recipe)}}}\par"
        yield r"\end{minipage}"


def _code(recipe: str) -> str:
    """A recipe with straight quotes, and places to break the line."""
    text = escape(" ".join(recipe.split()))
    for letter, written in _CODE.items():
        text = text.replace(letter, written)
    return text
