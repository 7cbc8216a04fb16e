"""Draws the figure of a sweep: a measure against the value of one parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from duelrank.core.errors import InvalidValue, UnknownName
from duelrank.experiments.figures.style import (
    BAND,
    add_legend,
    check_one_dataset,
    family_styles,
    new_figure,
    style_panel,
)
from duelrank.experiments.results.frame import Frame
from duelrank.experiments.results.summary import Estimate, Measure, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["sweep"]


def sweep(
    frame: Frame,
    points: Sequence[tuple[float, str]],
    measure: Measure,
    parameter: str,
    label: str,
    base: tuple[str, str] | None = None,
    title: str = "",
) -> Figure:
    """Draw a measure, mean and 95% confidence interval, against the value of a parameter, one panel per user.

    Each panel has its own scale, because users differ more than parameter values do.

    Parameters
    ----------
    points
        Each value of the parameter, and the recipe with that value, as in the frame.
    parameter, label
        The names of the parameter and of the recipe that is varied.
    base
        Label and recipe of the baseline, drawn as a dashed horizontal line.
    """
    metric = check_one_dataset(frame)
    _check(frame, points, base)
    summary = summarise(frame, measure, tests=False)
    (dataset,) = summary.datasets
    related = base is not None and all(summary.algorithms[recipe] == base[1] for _, recipe in points)
    styles = family_styles({"base": "", "varied": "base" if related else ""})
    figure, (panels,) = new_figure(len(summary.users), sharex=True)
    drawn: dict[str, Any] = {}
    for panel, user in zip(panels, summary.users, strict=True):
        found = [(value, summary.find(dataset, user, recipe)) for value, recipe in sorted(points)]
        drawn[label] = _line(panel, [(value, each) for value, each in found if each], styles["varied"])
        level = summary.find(dataset, user, base[1]) if base else None
        if base and level:
            drawn[base[0]] = _level(panel, level, styles["base"])
        style_panel(panel, user)
        panel.set_xlabel(parameter)
    panels[0].set_ylabel(f"{measure} {metric}")
    if title:
        figure.suptitle(title, fontsize="medium")
    add_legend(figure, list(drawn.values()), list(drawn))
    return figure


def _check(frame: Frame, points: Sequence[tuple[float, str]], base: tuple[str, str] | None) -> None:
    if not points:
        raise InvalidValue("a sweep needs at least one value")
    known = set(frame["algorithm"].tolist())
    for recipe in (*(recipe for _, recipe in points), *([base[1]] if base else [])):
        if recipe not in known:
            raise UnknownName.among("algorithm of these runs", recipe, known)


def _line(panel: Axes, points: list[tuple[float, Estimate]], style: dict[str, Any]) -> Any:
    means, widths = [each.mean for _, each in points], [each.half_width or 0.0 for _, each in points]
    style = {**style, "markevery": None}
    return panel.errorbar([value for value, _ in points], means, yerr=widths, capsize=2.5, elinewidth=1.0, **style)


def _level(panel: Axes, estimate: Estimate, style: dict[str, Any]) -> Any:
    """Draw the mean of the base and its confidence interval."""
    mean, width = estimate.mean, estimate.half_width
    if width is not None:
        panel.axhspan(mean - width, mean + width, color=style["color"], **BAND)
    return panel.axhline(mean, color=style["color"], linestyle="--", linewidth=1.3)
