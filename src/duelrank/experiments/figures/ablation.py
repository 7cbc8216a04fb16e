"""Draws the figure of an ablation: projection and rescaling, separately and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duelrank.core.errors import UnknownName
from duelrank.experiments.figures.style import (
    add_legend,
    check_one_dataset,
    escape_formulas,
    family_styles,
    new_figure,
    style_panel,
)
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.summary import MEASURES, Estimate, Summary, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Arm", "ablation"]

_APART = 0.12  # horizontal distance between points of one rescaling


@dataclass(frozen=True)
class Arm:
    """One recipe of an ablation: its projection, its rescaling, and its text as in the frame."""

    projection: str
    rescaling: str
    recipe: str


def ablation(frame: Frame, arms: Sequence[Arm], title: str = "") -> Figure:
    """Draw mean and 95% confidence interval of every arm: a column per user, a row per measure.

    Each position on the x axis is a rescaling, each line a projection: parallel lines mean that their effects are independent.
    Each panel has its own scale.
    """
    metric = check_one_dataset(frame)
    for arm in arms:
        if arm.recipe not in frame["algorithm"]:
            raise UnknownName.among("algorithm of these runs", arm.recipe, set(frame["algorithm"].tolist()))
    users = list(dict.fromkeys(frame["user"].tolist()))
    projections = list(dict.fromkeys(arm.projection for arm in arms))
    styles = family_styles(dict.fromkeys(projections, ""))
    figure, panels = new_figure(len(users), len(MEASURES), sharex=True)
    lines: dict[str, Any] = {}
    for measure, row in zip(MEASURES, panels, strict=True):
        summary = summarise(frame, measure, tests=False)
        for user, panel in zip(users, row, strict=True):
            for place, projection in enumerate(projections):
                shift = _APART * (place - (len(projections) - 1) / 2)
                points = _points(summary, user, arms, projection)
                lines[projection] = _draw(panel, points, shift, styles[projection])
            _set_axes(panel, user if measure == MEASURES[0] else "", arms)
        row[0].set_ylabel(f"{measure} {metric}")
    for panel in panels[-1]:
        panel.set_xlabel("rescaling of the gradient")
    if title:
        figure.suptitle(title, fontsize="medium")
    add_legend(figure, list(lines.values()), list(lines))
    return figure


_Point = tuple[int, Estimate]


def _points(summary: Summary, user: str, arms: Sequence[Arm], projection: str) -> list[_Point]:
    """Return the position and estimate of each arm with a given projection that has runs."""
    places = _rescalings(arms)
    mine = sorted((places.index(arm.rescaling), arm.recipe) for arm in arms if arm.projection == projection)
    found = [(place, summary.find(summary.datasets[0], user, recipe)) for place, recipe in mine]
    return [(place, estimate) for place, estimate in found if estimate is not None]


def _draw(panel: Axes, points: list[_Point], shift: float, style: dict[str, Any]) -> Any:
    places = [place + shift for place, _ in points]
    style = {**style, "markevery": None, "linewidth": 1.0, "markersize": 6}
    means, widths = [each.mean for _, each in points], [each.half_width or 0.0 for _, each in points]
    return panel.errorbar(places, means, yerr=widths, capsize=3, elinewidth=1.3, **style)


def _set_axes(panel: Axes, user: str, arms: Sequence[Arm]) -> None:
    rescalings = _rescalings(arms)
    style_panel(panel, user)
    panel.grid(visible=False, axis="x")
    panel.set_xticks(range(len(rescalings)), [escape_formulas(name) for name in rescalings])
    panel.set_xlim(-0.5, len(rescalings) - 0.5)


def _rescalings(arms: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(arm.rescaling for arm in arms))
