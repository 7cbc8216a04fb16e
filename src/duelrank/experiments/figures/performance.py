"""Draws the performance of every algorithm as a point with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from duelrank.experiments.figures.style import (
    Labels,
    check_one_dataset,
    escape_formulas,
    family_styles,
    new_figure,
    style_panel,
)
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.summary import MEASURES, Summary, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["performance"]


def performance(frame: Frame, labels: Labels | None = None, title: str = "") -> Figure:
    """Draw mean and 95% confidence interval of every algorithm: a column per user, a row per measure.

    Parameters
    ----------
    labels
        From a recipe to the short name to print for it.
    """
    check_one_dataset(frame)
    summaries = [summarise(frame, measure, tests=False) for measure in MEASURES]
    first = summaries[0]
    names = list(first.algorithms)
    styles = family_styles(first.algorithms)
    figure, panels = new_figure(len(first.users), len(summaries), sharey=True, height=0.8 + 0.24 * len(names))
    for summary, row in zip(summaries, panels, strict=True):
        for user, panel in zip(first.users, row, strict=True):
            _draw(panel, summary, user, names, styles)
            style_panel(panel, user if summary is first else "")
            panel.set_xlabel(f"{summary.measure} {summary.metric}")
        row[0].set_yticks(range(len(names)), [escape_formulas((labels or {}).get(name, name)) for name in names])
        row[0].set_ylim(len(names) - 0.5, -0.5)
    if title:
        figure.suptitle(title, fontsize="medium")
    return figure


def _draw(panel: Axes, summary: Summary, user: str, names: Sequence[str], styles: dict[str, dict[str, Any]]) -> None:
    for place, name in enumerate(names):
        estimate = summary.find(summary.datasets[0], user, name)
        if estimate is not None:
            style = {**styles[name], "markevery": None, "linestyle": "none", "markersize": 6}
            panel.errorbar([estimate.mean], [place], xerr=[estimate.half_width or 0.0], capsize=2.5, **style)
