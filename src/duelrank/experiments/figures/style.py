"""Defines the style of figures of runs: a colour for each family, markers and dashes for greyscale print, a legend below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from duelrank.core.errors import InvalidValue
from duelrank.drawing import COLOURS, escape_formulas, figure_class, style_panel
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.summary import Labels, check_comparable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BAND",
    "Labels",
    "add_legend",
    "check_one_dataset",
    "escape_formulas",
    "family_styles",
    "figure_class",
    "new_figure",
    "style_panel",
]

#: The fill style of a confidence band.
BAND: dict[str, Any] = {"alpha": 0.13, "linewidth": 0.0}

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def new_figure(columns: int, rows: int = 1, height: float = 2.8, **sharing: Any) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure with panels of equal size; the height of each is in inches."""
    size = (max(6.0, 1.2 + 3.1 * columns), 1.0 + height * rows)
    figure: Figure = figure_class()(figsize=size, dpi=150, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **sharing).tolist()


def family_styles(algorithms: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Assign a colour and a marker to each family (an algorithm and its projections), and a line style to each member.

    If an algorithm and its projection are both present, the algorithm itself has a dashed line and hollow markers.

    Parameters
    ----------
    algorithms
        From each algorithm to its base, which is empty if it has none.
    """
    families = list(dict.fromkeys(base or algorithm for algorithm, base in algorithms.items()))
    members = dict.fromkeys(families, 0)
    styles = {}
    for algorithm, base in algorithms.items():
        family = families.index(base or algorithm)
        if not base:
            styles[algorithm] = _style(family, dashed=algorithm in algorithms.values())
        else:
            styles[algorithm] = _style(family, member=members[base])
            members[base] += 1
    return styles


def add_legend(figure: Figure, lines: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend below, with each algorithm above its projection if they alternate; long recipes take several lines."""
    letters = int(11 * figure.get_figwidth())  # about as many as fit side by side
    filled = [fill(escape_formulas(name), letters - 8) for name in names]
    most = len(names) if len(names) <= 3 else min(4, (len(names) + 1) // 2)
    columns = next(n for n in range(most, 0, -1) if n == 1 or _legend_width(filled, n) <= letters)
    figure.legend(lines, filled, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)


def check_one_dataset(frame: Frame) -> str:
    """Return the metric of the runs; raise an error unless they have the same settings and one data set."""
    metric = check_comparable(frame)
    found = sorted(set(frame["dataset"].tolist()))
    if len(found) > 1:
        raise InvalidValue(
            f"a figure shows one data set, but the runs have {', '.join(found)}: select one with `where`"
        )
    return metric


def _legend_width(names: Sequence[str], columns: int) -> int:
    """Return the approximate width, in characters, of a legend that is filled column by column."""
    rows, longer = divmod(len(names), columns)
    ends = [(column + 1) * rows + min(column + 1, longer) for column in range(columns)]
    parts = [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return sum(8 + max(len(line) for name in part for line in name.splitlines()) for part in parts)


def _style(family: int, member: int = 0, dashed: bool = False) -> dict[str, Any]:
    colour = COLOURS[family % len(COLOURS)]
    return {
        "color": colour,
        "linestyle": "--" if dashed else _DASHES[member % len(_DASHES)],
        "linewidth": 1.3 if dashed else 1.7,
        "marker": _MARKERS[(family + 3 * member) % len(_MARKERS)],
        "markersize": 4,
        "markerfacecolor": "white" if dashed else colour,
        "markevery": (family + member, 4),  # beside those of the others, not on top of them
    }
