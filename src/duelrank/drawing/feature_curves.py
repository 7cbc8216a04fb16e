"""Draws what a ranker has learned: a small panel for each feature, with its curve above the documents that were seen."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.drawing.style import COLOURS, escape_formulas, figure_class, style_panel
from duelrank.representation.curves import ShownCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["feature_curves"]

_COLUMNS = 4
_PANEL = (2.5, 1.75)  # inches
_BARS = 0.35  # height of the highest bar, as a share of the panel
_LETTERS = 30  # of a feature's name in the title of a panel
_AXES = {
    "value": "value of the feature",
    "scaled value": "scaled value of the feature",
    "query range": "place of the value in the query's range: 0 is the lowest, 1 the highest",
    "query rank": "rank of the value within the query: 0 is the lowest, 1 the highest",
}


def feature_curves(curves: Sequence[ShownCurve], title: str, most: int = 12) -> Figure:
    """Draw the curves of the features that move rankings most, over the documents that were seen as light bars.

    All panels have one scale of heights, so that a higher curve moves rankings more. A constant changes no ranking: each curve is
    drawn around its mean over the seen documents. An axis is logarithmic where the values of the feature span decades.

    Parameters
    ----------
    curves
        The most important first.
    title
        Of the figure; how many features it leaves out is added.
    most
        The most panels.
    """
    shown = curves[:most]
    rows = -(-len(shown) // _COLUMNS)
    columns = -(-len(shown) // rows)
    size = (max(4.5, 0.6 + _PANEL[0] * columns), 0.9 + _PANEL[1] * rows)
    figure: Figure = figure_class()(figsize=size, dpi=120, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
    for panel, each in zip(panels, shown, strict=False):
        _draw(panel, each)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    figure.suptitle(_title(title, len(curves) - len(shown), figure.get_figwidth()), fontsize="medium")
    bars = "; bars: documents seen" if any(len(each.shares) for each in shown) else ""
    figure.supxlabel(f"{_AXES[shown[0].domain]}{bars}", fontsize="small")
    figure.supylabel("added to the score", fontsize="small")
    return figure


def _title(title: str, left_out: int, width: float) -> str:
    features = "feature moves" if left_out == 1 else "features move"
    more = f"; {left_out:,} more {features} rankings less" if left_out else ""
    return fill(escape_formulas(title + more), int(13 * width))


def _draw(panel: Axes, shown: ShownCurve) -> None:
    axis = shown.edges if len(shown.edges) else np.linspace(shown.curve.values[0], shown.curve.values[-1], 2)
    values, knots = _points(shown, axis)
    middle = _mean_height(shown)
    if len(shown.shares):
        heights = _BARS * shown.shares / shown.shares.max()
        where: Any = panel.get_xaxis_transform()
        panel.bar(axis[:-1], heights, np.diff(axis), align="edge", color="0.87", linewidth=0, transform=where, zorder=0)
    panel.axhline(0.0, color="0.75", linewidth=0.8, zorder=1)
    panel.plot(values, shown.curve.at(values) - middle, color=COLOURS[0], linewidth=1.7)
    if shown.curve.shape == "ramps":
        panel.plot(knots, shown.curve.at(knots) - middle, "o", color=COLOURS[0], markersize=2.8, clip_on=False)
    style_panel(panel, shorten(shown.name, _LETTERS, placeholder="…") if " " in shown.name else shown.name[:_LETTERS])
    panel.title.set_fontsize("small")
    panel.tick_params(labelsize="x-small", length=2)
    _set_axis(panel, axis)


def _points(shown: ShownCurve, axis: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values at which a curve is drawn, and the knots among them."""
    knots = shown.curve.values[(shown.curve.values >= axis[0]) & (shown.curve.values <= axis[-1])]
    even = np.interp(np.linspace(0, len(axis) - 1, 200), np.arange(len(axis)), axis)
    just_above = np.nextafter(knots, np.inf)  # for the jumps of steps
    return np.unique(np.concatenate([even, knots, just_above]).clip(axis[0], axis[-1])), knots


def _mean_height(shown: ShownCurve) -> float:
    """Return the mean height over the seen documents; without them, the middle of the heights."""
    if not len(shown.shares):
        return float(shown.curve.heights.min() + shown.curve.heights.max()) / 2.0
    middles = (shown.edges[:-1] + shown.edges[1:]) / 2.0
    return float(shown.shares @ shown.curve.at(middles))


def _set_axis(panel: Axes, axis: NDArray[np.float64]) -> None:
    """Give all bins the same width, and a few ticks."""
    widths = np.diff(axis)
    if widths.max() > 1.5 * widths.min():
        places = np.arange(len(axis), dtype=np.float64)
        panel.set_xscale(
            "function", functions=(lambda x: np.interp(x, axis, places), lambda x: np.interp(x, places, axis))
        )
        panel.set_xticks(_round_values(axis))
        panel.set_xticks([], minor=True)
    else:
        panel.locator_params(axis="x", nbins=4, steps=[1, 2, 2.5, 5, 10])
    panel.xaxis.set_major_formatter(_short)
    panel.set_xlim(axis[0], axis[-1])


def _round_values(axis: NDArray[np.float64]) -> list[float]:
    """Return some of 0, 1, 2, 5, 10, 20, …, 0.5, … and their negatives, not too near to each other on the axis."""
    sizes = np.outer(10.0 ** np.arange(-12, 13), [1.0, 2.0, 5.0]).ravel()
    round_values = np.concatenate([[0.0], sizes, -sizes])
    by_roundness = round_values[np.argsort(~np.isin(round_values, np.append(0.0, sizes[::3])), kind="stable")]
    places = np.interp(by_roundness, axis, np.arange(len(axis)))
    apart = (len(axis) - 1) / 6.5
    ticks: dict[float, float] = {}
    for value, place in zip(by_roundness.tolist(), places.tolist(), strict=True):
        if axis[0] <= value <= axis[-1] and all(abs(place - other) >= apart for other in ticks.values()):
            ticks[value] = place
    return sorted(ticks)


def _short(value: float, _position: float = 0) -> str:
    """Return 0.05, 20, 3k, 4M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
