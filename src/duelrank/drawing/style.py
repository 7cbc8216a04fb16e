"""Defines the style of all panels: a colour-blind safe palette, a light grid, no frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duelrank.core.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "escape_formulas", "figure_class", "style_panel"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's


def figure_class() -> Any:
    """Return a figure class that draws without a window, and that notebooks show; matplotlib is imported only here.

    Examples
    --------
    >>> from duelrank.drawing import figure_class
    >>> figure = figure_class()(figsize=(4, 3))
    >>> figure._repr_png_()[1:4]
    b'PNG'
    """
    try:
        import matplotlib.figure  # noqa: F401 - also where the next line finds its module imported already

        from duelrank.drawing._shown import ShownFigure
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'duelrank[plot]'") from None
    return ShownFigure


def style_panel(panel: Axes, title: str) -> None:
    """Add the title and a light grid to a panel."""
    panel.set_title(escape_formulas(title), fontsize="medium")
    panel.grid(visible=True, color="0.9", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def escape_formulas(text: str) -> str:
    r"""Return text that matplotlib does not interpret as a formula.

    Examples
    --------
    >>> from duelrank.drawing import escape_formulas
    >>> print(escape_formulas("5 $"))
    5 \$
    """
    return text.replace("$", r"\$")
