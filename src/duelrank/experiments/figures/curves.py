"""Draws learning curves: the mean per algorithm over impressions, with a confidence band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from duelrank.experiments.figures.style import (
    BAND,
    Labels,
    add_legend,
    check_one_dataset,
    family_styles,
    new_figure,
    style_panel,
)
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.summary import Curve, mean_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CurveColumn", "learning_curves"]

CurveColumn = Literal["offline_curve", "online_curve", "cosine_curve"]


def learning_curves(
    frame: Frame,
    column: CurveColumn = "offline_curve",
    labels: Labels | None = None,
    skyline: float | None = None,
    skyline_label: str = "offline reference",
    title: str = "",
) -> Figure:
    """Draw a curve per algorithm over impressions, the mean of its runs with a 95% confidence band, one panel per user.

    An algorithm and its projections share a colour and a marker; if both are present, the line of the algorithm itself is dashed.

    Parameters
    ----------
    column
        The column of the frame that holds the curves.
    labels
        From a recipe to the short name to print for it.
    skyline, skyline_label
        A value to mark in every panel, such as that of weights learned from all labels, and its name.
    """
    metric = check_one_dataset(frame)
    curves = mean_curves(frame, column)
    users = list(dict.fromkeys(curve.user for curve in curves))
    styles = family_styles({curve.algorithm: curve.base for curve in curves})
    figure, (panels,) = new_figure(len(users), sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    for panel, user in zip(panels, users, strict=True):
        for curve in curves:
            if curve.user == user:
                lines[curve.algorithm] = _draw(panel, curve, styles[curve.algorithm])
        if skyline is not None:
            lines[""] = panel.axhline(skyline, color="0.25", linestyle=(0, (1, 1.5)), linewidth=1.4)
        style_panel(panel, user)
        _over_impressions(panel)
    panels[0].set_ylabel(_meaning(column, metric))
    _limit(panels[0], column)
    if title:
        figure.suptitle(title, fontsize="medium")
    ordered = [name for name in (*styles, "") if name in lines]
    names = [(labels or {}).get(name, name) if name else skyline_label for name in ordered]
    add_legend(figure, [lines[name] for name in ordered], names)
    return figure


def _over_impressions(panel: Axes) -> None:
    """Label the x axis and make it logarithmic."""
    panel.set_xlabel("impressions")
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")


def _draw(panel: Axes, curve: Curve, style: dict[str, Any]) -> Any:
    (line,) = panel.plot(curve.impressions, curve.mean, label=curve.algorithm, **style)
    if curve.half_width:
        mean, width = np.array(curve.mean), np.array(curve.half_width)
        panel.fill_between(curve.impressions, mean - width, mean + width, color=style["color"], **BAND)
    return line


def _limit(panel: Axes, column: str) -> None:
    """Set the y limits by the curves, not by their confidence bands."""
    lowest, highest = {"offline_curve": (0.0, 1.0), "cosine_curve": (-1.0, 1.0)}.get(column, (0.0, np.inf))
    bottom, top = panel.get_ylim()
    panel.set_ylim(max(bottom, lowest), min(top, highest))


def _meaning(column: str, metric: str) -> str:
    return {
        "offline_curve": f"offline {metric}",
        "online_curve": f"online {metric} so far",
        "cosine_curve": "cosine to the reference",
    }[column]
