"""Learning curves as a figure, readable in print and in grey."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from duelrank.errors import InvalidValue, MissingExtra
from duelrank.experiments.comparison import Comparison, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_target", "learning_curves"]

# Okabe and Ito's colours for all kinds of sight; each family also has a marker of its own, for print in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def learning_curves(comparison: Comparison, title: str = "") -> Figure:
    """Draw the offline metric over impressions, one panel per user.

    An algorithm and its projections share a colour and a marker; where both are there, the algorithm itself is dashed.
    """
    figure_class = _matplotlib()
    users = comparison.users
    figure: Figure = figure_class(figsize=(max(6.0, 1.2 + 3.1 * len(users)), 3.8), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(users), sharex=True, sharey=True, squeeze=False)[0]
    styles = _styles(comparison.curves)
    for panel, user in zip(panels, users, strict=True):
        for curve in comparison.curves:
            if curve.user == user:
                panel.plot(curve.impressions, curve.offline, label=curve.algorithm, **styles[curve.algorithm])
        _dress(panel, user)
    panels[0].set_ylabel(f"offline {comparison.metric}")
    if title:
        figure.suptitle(title, fontsize="medium")
    _name_lines(figure, panels[0].get_lines())
    return figure


def check_target(path: Path) -> None:
    """Raise before any work is done where a figure could not be written to the path."""
    _matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lower().lstrip(".") not in known:
        raise InvalidValue(f"cannot draw a figure as {path.name!r}; the name may end in .{', .'.join(sorted(known))}")


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'duelrank[plot]'") from None
    return Figure


def _styles(curves: Sequence[Curve]) -> dict[str, dict[str, Any]]:
    """Give each family, an algorithm and its projections, a colour and a marker, and each member a line style."""
    families = list(dict.fromkeys(curve.base or curve.algorithm for curve in curves))
    projected = {curve.base for curve in curves}
    styles: dict[str, dict[str, Any]] = {}
    for curve in curves:
        family = families.index(curve.base or curve.algorithm)
        colour, marker = _COLOURS[family % len(_COLOURS)], _MARKERS[family % len(_MARKERS)]
        dashed = curve.base is None and curve.algorithm in projected
        styles[curve.algorithm] = {
            "color": colour,
            "linestyle": "--" if dashed else "-",
            "linewidth": 1.3 if dashed else 1.7,
            "marker": marker,
            "markersize": 4,
            "markerfacecolor": "white" if dashed else colour,
            "markevery": (family, 4),  # beside those of the other families, not on top of them
        }
    return styles


def _dress(panel: Axes, user: str) -> None:
    panel.set_title(user, fontsize="medium")
    panel.set_xlabel("impressions")
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
    panel.grid(visible=True, color="0.9", linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)


def _name_lines(figure: Figure, lines: Sequence[Any]) -> None:
    """Put the legend below, an algorithm above its projection where they alternate; long recipes take several lines."""
    letters = int(11 * figure.get_figwidth())  # about so many fit beside one another
    names = [fill(line.get_label(), letters - 8) for line in lines]
    longest = max(len(row) for name in names for row in name.splitlines())
    columns = max(1, min(4, letters // (longest + 8), (len(lines) + 1) // 2))
    figure.legend(lines, names, loc="outside lower center", ncols=columns, frameon=False)
