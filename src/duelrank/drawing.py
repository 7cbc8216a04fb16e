"""Draws figures with matplotlib in one style: curves of a ranker's features, and win rates of two rankers.

Matplotlib is imported when the first figure is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import MissingExtra
from duelrank.representation.curves import ShownCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's palette

_CURVE_COLUMNS = 4
_CURVE_PANEL = (2.5, 1.75)  # width and height of a panel in inches
_BARS = 0.35  # height of the highest bar, as a share of the panel
_LETTERS = 30  # maximum length of a feature's name in the title of a panel
_AXES = {
    "value": "value of the feature",
    "scaled value": "scaled value of the feature",
    "query range": "place of the value in the query's range: 0 is the lowest, 1 the highest",
    "query rank": "rank of the value within the query: 0 is the lowest, 1 the highest",
}

_RATE_COLUMNS = 3
_RATE_PANELS = 12  # maximum number of panels
_LEAST_REACH = 0.08  # minimum height of the vertical axis above and below one half
_SPAN = 300.0  # maximum ratio of the impressions at the right end to those at the left end


def figure_class() -> Any:
    """Return a figure class that draws without a window and that notebooks show without ``matplotlib.pyplot``.

    Examples
    --------
    >>> from duelrank.drawing import figure_class
    >>> figure = figure_class()(figsize=(4, 3))
    >>> figure._repr_png_()[1:4]
    b'PNG'
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtra("figures need matplotlib: pip install 'duelrank[plot]'") from None
    return _shown_figure()


@cache
def _shown_figure() -> Any:
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that a notebook shows."""

        __qualname__ = "ShownFigure"  # pickle finds the class by this name, see `__getattr__`

        def _repr_png_(self) -> bytes:
            picture = BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return ShownFigure


def __getattr__(name: str) -> Any:
    if name == "ShownFigure":
        return _shown_figure()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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


def feature_curves(curves: Sequence[ShownCurve], title: str, most: int = 12) -> Figure:
    """Draw one panel per feature: its curve, and the distribution of its values in the seen documents as light bars.

    All panels share one scale of heights, so a higher curve has more effect on rankings. A constant changes no ranking, so each
    curve is drawn around its mean over the seen documents. An axis is logarithmic if the values of the feature span decades.

    Parameters
    ----------
    curves
        Curves in descending order of importance.
    title
        Title of the figure; the number of omitted features is appended.
    most
        Maximum number of panels.
    """
    shown = curves[:most]
    rows = -(-len(shown) // _CURVE_COLUMNS)
    columns = -(-len(shown) // rows)
    size = (max(4.5, 0.6 + _CURVE_PANEL[0] * columns), 0.9 + _CURVE_PANEL[1] * rows)
    figure: Figure = figure_class()(figsize=size, dpi=120, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel().tolist()
    for panel, each in zip(panels, shown, strict=False):
        _draw_curve(panel, each)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    figure.suptitle(_curves_title(title, len(curves) - len(shown), figure.get_figwidth()), fontsize="medium")
    bars = "; bars: documents seen" if any(len(each.shares) for each in shown) else ""
    figure.supxlabel(f"{_AXES[shown[0].domain]}{bars}", fontsize="small")
    figure.supylabel("added to the score", fontsize="small")
    return figure


def _curves_title(title: str, left_out: int, width: float) -> str:
    features = "feature moves" if left_out == 1 else "features move"
    more = f"; {left_out:,} more {features} rankings less" if left_out else ""
    return fill(escape_formulas(title + more), int(13 * width))


def _draw_curve(panel: Axes, shown: ShownCurve) -> None:
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
    _set_curve_axis(panel, axis)


def _points(shown: ShownCurve, axis: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values at which a curve is drawn, and those of them that are knots."""
    knots = shown.curve.values[(shown.curve.values >= axis[0]) & (shown.curve.values <= axis[-1])]
    even = np.interp(np.linspace(0, len(axis) - 1, 200), np.arange(len(axis)), axis)
    just_above = np.nextafter(knots, np.inf)  # steps jump there
    return np.unique(np.concatenate([even, knots, just_above]).clip(axis[0], axis[-1])), knots


def _mean_height(shown: ShownCurve) -> float:
    """Return the mean height over the seen documents, or the middle of the heights if no documents are known."""
    if not len(shown.shares):
        return float(shown.curve.heights.min() + shown.curve.heights.max()) / 2.0
    middles = (shown.edges[:-1] + shown.edges[1:]) / 2.0
    return float(shown.shares @ shown.curve.at(middles))


def _set_curve_axis(panel: Axes, axis: NDArray[np.float64]) -> None:
    """Scale the axis so that all bins have the same width, and set a few ticks."""
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
    """Return ticks among 0, 1, 2, 5, 10, 20, …, 0.5, … and their negatives, with a minimum distance on the axis."""
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
    """Format a number with three digits and a unit prefix: 0.05, 20, 3k, 4M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


@dataclass(frozen=True, eq=False)
class WinRate:
    """The win rate of one ranker against another over time.

    Parameters
    ----------
    title
        Title of the panel.
    impressions
        Number of recorded lists at each point in time.
    rate, low, high
        Share of decisive lists won until then, and the ends of the confidence band.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.drawing import WinRate
    >>> rate = WinRate("new against old", np.array([10, 20]), np.array([0.6, 0.55]), np.array([0.3, 0.4]), np.array([0.9, 0.7]))
    >>> float(rate.low[-1])  # the band reaches below one half: not better yet
    0.4
    """

    title: str
    impressions: NDArray[np.int64]
    rate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def differences(found: Sequence[tuple[str, float, float, float]], title: str) -> Figure:
    """Draw differences with their intervals, one a line; NaN is a difference that cannot be told.

    Parameters
    ----------
    found
        For each line its name, the difference, and the ends of its interval.
    title
        Title of the figure.
    """
    figure: Figure = figure_class()(figsize=(7.0, 1.2 + 0.4 * len(found)), layout="constrained")
    panel = figure.add_subplot()
    panel.axvline(0.0, color="0.6", linewidth=1.0)
    for line, (_, difference, low, high) in enumerate(found):
        if np.isfinite(difference):
            colour = COLOURS[2] if low > 0.0 else COLOURS[1] if high < 0.0 else "0.4"
            panel.plot([low, high], [line, line], color=colour, linewidth=3.0, solid_capstyle="butt")
            panel.plot([difference], [line], "o", color=colour)
        else:
            panel.text(0.0, line, " cannot be told", va="center", color="0.4")
    panel.set_yticks(range(len(found)), [escape_formulas(name) for name, *_ in found])
    panel.set_ylim(len(found) - 0.4, -0.6)
    panel.set_xlabel("difference to what was shown, with its interval")
    style_panel(panel, title)
    return figure


def win_rates(pairs: Sequence[WinRate], level: float) -> Figure:
    """Draw a panel for each pair of rankers, at most twelve, all with the same axes.

    Parameters
    ----------
    pairs
        Win rates to draw.
    level
        Probability that a band is wrong at any point in time.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.drawing import WinRate, win_rates
    >>> rate = WinRate("new against old", np.array([10, 20]), np.array([0.6, 0.55]), np.array([0.3, 0.4]), np.array([0.9, 0.7]))
    >>> len(win_rates([rate], level=0.05).axes)
    1
    """
    shown = pairs[:_RATE_PANELS]
    rows, columns = -(-len(shown) // _RATE_COLUMNS), min(len(shown), _RATE_COLUMNS)
    size = (5.6, 3.3) if len(shown) == 1 else (0.5 + 3.3 * columns, 0.6 + 2.4 * rows)
    figure: Figure = figure_class()(figsize=size, dpi=120, layout="constrained")
    panels: list[Axes] = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel().tolist()
    for panel, each in zip(panels, shown, strict=False):
        _draw_rate(panel, each)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel in panels[max(len(shown) - columns, 0) : len(shown)]:
        panel.tick_params(labelbottom=True)  # also above an empty place in the last row
    _set_rate_axes(panels[0], shown)
    figure.supxlabel(
        f"impressions; the band holds at all times at once, with probability at least {1 - level:.4g}", fontsize="small"
    )
    figure.supylabel("share of decisive lists won", fontsize="small")
    return figure


def _draw_rate(panel: Axes, pair: WinRate) -> None:
    panel.axhline(0.5, color="0.45", linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    panel.fill_between(pair.impressions, pair.low, pair.high, color=COLOURS[0], alpha=0.18, linewidth=0)
    panel.plot(pair.impressions, pair.rate, color=COLOURS[0], linewidth=1.7)
    if len(pair.impressions):
        panel.plot(pair.impressions[-1:], pair.rate[-1:], "o", color=COLOURS[0], markersize=3.5, clip_on=False)
        panel.annotate(
            f"{pair.rate[-1]:.1%}",
            (float(pair.impressions[-1]), float(pair.rate[-1])),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=COLOURS[0],
            annotation_clip=False,
        )
    else:
        panel.text(
            0.5, 0.6, "no decisive list yet", transform=panel.transAxes, ha="center", fontsize="small", color="0.4"
        )
    style_panel(panel, pair.title)
    panel.tick_params(labelsize="small", length=2)


def _set_rate_axes(panel: Axes, pairs: Sequence[WinRate]) -> None:
    """Set the axes of all panels: a logarithmic time axis, and a vertical range that contains the later part of all bands."""
    from matplotlib.ticker import LogLocator, NullFormatter

    most = max((int(each.impressions[-1]) for each in pairs if len(each.impressions)), default=100)
    first = max(most / _SPAN, min(10.0, most / 2.0))
    reach = _LEAST_REACH
    for each in pairs:
        late = each.impressions >= most / 8.0
        ends: Any = np.concatenate([each.low[late], each.high[late]])
        reach = max(reach, float(np.abs(ends - 0.5).max(initial=0.0)) + 0.02)
    panel.set_xscale("log")
    panel.set_xlim(first, most)
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if most < 100 * first else (1.0,)))
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_ylim(0.5 - min(reach, 0.5), 0.5 + min(reach, 0.5))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
