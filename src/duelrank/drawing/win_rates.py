"""Draws how often one ranker wins against another, over time, with a band that is right at all times at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duelrank.drawing.style import COLOURS, figure_class, style_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["WinRate", "win_rates"]

_COLUMNS = 3
_LEAST_REACH = 0.08  # of the vertical axis, to either side of one half
_SPAN = 300.0  # times the impressions at the left end are those at the right end, at most
_MOST = 12  # panels


@dataclass(frozen=True, eq=False)
class WinRate:
    """How often one ranker won against another.

    Parameters
    ----------
    title
        Of the panel.
    impressions
        Number of recorded lists at each point in time.
    rate, low, high
        The share of decisive lists that it had won by then, and the ends of the band.

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


def win_rates(pairs: Sequence[WinRate], level: float) -> Figure:
    """Draw a panel for each pair of rankers, at most twelve, all with the same axes.

    Parameters
    ----------
    pairs
        What to draw.
    level
        The probability that a band is ever wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.drawing import WinRate, win_rates
    >>> rate = WinRate("new against old", np.array([10, 20]), np.array([0.6, 0.55]), np.array([0.3, 0.4]), np.array([0.9, 0.7]))
    >>> len(win_rates([rate], level=0.05).axes)
    1
    """
    shown = pairs[:_MOST]
    rows, columns = -(-len(shown) // _COLUMNS), min(len(shown), _COLUMNS)
    size = (5.6, 3.3) if len(shown) == 1 else (0.5 + 3.3 * columns, 0.6 + 2.4 * rows)
    figure: Figure = figure_class()(figsize=size, dpi=120, layout="constrained")
    panels: list[Axes] = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel().tolist()
    for panel, each in zip(panels, shown, strict=False):
        _draw(panel, each)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel in panels[max(len(shown) - columns, 0) : len(shown)]:
        panel.tick_params(labelbottom=True)  # also where there is no panel below in the last row
    _set_axes(panels[0], shown)
    figure.supxlabel(
        f"impressions; the band holds at all times at once, with probability at least {1 - level:.4g}", fontsize="small"
    )
    figure.supylabel("share of decisive lists won", fontsize="small")
    return figure


def _draw(panel: Axes, pair: WinRate) -> None:
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


def _set_axes(panel: Axes, pairs: Sequence[WinRate]) -> None:
    """Set the axes of all panels: the time is logarithmic, and heights are what the bands need in the later part of it."""
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
