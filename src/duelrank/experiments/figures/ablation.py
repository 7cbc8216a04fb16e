"""Which part does it: projection and rescaling apart and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from duelrank.errors import UnknownName
from duelrank.experiments.figures.look import dress, family_styles, name_lines, new_figure, one_dataset, plain
from duelrank.experiments.frame import Frame
from duelrank.experiments.significance import half_width
from duelrank.experiments.tables import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Arm", "ablation"]

_MEASURES: tuple[Measure, ...] = ("online", "offline")
_APART = 0.12  # how far from one another the points of one place are


@dataclass(frozen=True)
class Arm:
    """One recipe of an ablation: how it projects, how it rescales, and its text as the frame spells it."""

    projection: str
    rescaling: str
    recipe: str


def ablation(frame: Frame, arms: Sequence[Arm], title: str = "") -> Figure:
    """Draw mean and 95% confidence interval of every arm: a column per user, a row per measure.

    A place on the x axis is a rescaling, a line a projection: parallel lines mean that the two do not need each other. Each
    panel has a scale of its own.
    """
    metric = one_dataset(frame)
    for arm in arms:
        if arm.recipe not in frame["algorithm"]:
            raise UnknownName.among("algorithm of these runs", arm.recipe, set(frame["algorithm"].tolist()))
    users = list(dict.fromkeys(frame["user"].tolist()))
    projections = list(dict.fromkeys(arm.projection for arm in arms))
    styles = family_styles(dict.fromkeys(projections, ""))
    figure, panels = new_figure(len(users), len(_MEASURES), sharex=True)
    lines: dict[str, Any] = {}
    for measure, row in zip(_MEASURES, panels, strict=True):
        for user, panel in zip(users, row, strict=True):
            for place, projection in enumerate(projections):
                shift = _APART * (place - (len(projections) - 1) / 2)
                points = _points(frame.where(user=user), arms, projection, measure)
                lines[projection] = _draw(panel, points, shift, styles[projection])
            _dress(panel, user if measure == _MEASURES[0] else "", arms)
        row[0].set_ylabel(f"{measure} {metric}")
    for panel in panels[-1]:
        panel.set_xlabel("rescaling of the gradient")
    if title:
        figure.suptitle(title, fontsize="medium")
    name_lines(figure, list(lines.values()), list(lines))
    return figure


_Point = tuple[int, float, float]


def _points(frame: Frame, arms: Sequence[Arm], projection: str, measure: Measure) -> list[_Point]:
    """Return place, mean and half an interval of each arm with a projection that has run."""
    places = _rescalings(arms)
    runs = [(places.index(a.rescaling), frame.where(algorithm=a.recipe)) for a in arms if a.projection == projection]
    found = [(place, run[measure]) for place, run in sorted(runs, key=lambda item: item[0]) if len(run)]
    return [(place, float(values.mean()), float(np.nan_to_num(half_width(values)))) for place, values in found]


def _draw(panel: Axes, points: list[_Point], shift: float, style: dict[str, Any]) -> Any:
    places = [place + shift for place, _, _ in points]
    style = {**style, "markevery": None, "linewidth": 1.0, "markersize": 6}
    means, widths = [mean for _, mean, _ in points], [width for _, _, width in points]
    return panel.errorbar(places, means, yerr=widths, capsize=3, elinewidth=1.3, **style)


def _dress(panel: Axes, user: str, arms: Sequence[Arm]) -> None:
    rescalings = _rescalings(arms)
    dress(panel, user)
    panel.grid(visible=False, axis="x")
    panel.set_xticks(range(len(rescalings)), [plain(name) for name in rescalings])
    panel.set_xlim(-0.5, len(rescalings) - 0.5)


def _rescalings(arms: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(arm.rescaling for arm in arms))
