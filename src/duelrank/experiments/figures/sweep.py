"""What a parameter does: a measure against its value, beside the algorithm that does not have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from duelrank.errors import InvalidValue, UnknownName
from duelrank.experiments.figures.look import BAND, Labels, dress, family_styles, name_lines, new_figure, one_dataset
from duelrank.experiments.frame import Frame
from duelrank.experiments.significance import half_width
from duelrank.experiments.tables import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["sweep"]


def sweep(
    frame: Frame,
    points: Sequence[tuple[float, str]],
    measure: Measure,
    parameter: str,
    labels: Labels | None = None,
    title: str = "",
) -> Figure:
    """Draw a measure, mean and 95% confidence interval, against the value of a parameter, one panel per user.

    Each algorithm that the recipes project has a line; where it has run itself, a dashed horizontal line marks it. The
    panels have scales of their own: the users differ more than the values do.

    Parameters
    ----------
    points
        The value of the parameter with the recipe, as the frame spells it, that has it.
    parameter
        What to call it.
    labels
        From a base algorithm to the short name to print for it.
    """
    metric = one_dataset(frame)
    lines = _lines(frame, points)
    users = list(dict.fromkeys(frame["user"].tolist()))
    styles = family_styles({name: base for base in lines for name, base in ((base, ""), (f"{base}+", base))})
    figure, (panels,) = new_figure(len(users), sharex=True)
    drawn: dict[str, Any] = {}
    for panel, user in zip(panels, users, strict=True):
        here = frame.where(user=user)
        for base, line in lines.items():
            name = (labels or {}).get(base, base)
            _level(panel, here.where(algorithm=base), measure, name, styles[base], drawn)
            drawn[f"{name} with projection"] = _line(panel, here, line, measure, styles[f"{base}+"])
        dress(panel, user)
        panel.set_xlabel(parameter)
    panels[0].set_ylabel(f"{measure} {metric}")
    if title:
        figure.suptitle(title, fontsize="medium")
    name_lines(figure, list(drawn.values()), list(drawn))
    return figure


def _lines(frame: Frame, points: Sequence[tuple[float, str]]) -> dict[str, list[tuple[float, str]]]:
    """Sort the points into lines, by the base of their recipes, each line from left to right."""
    if not points:
        raise InvalidValue("a sweep needs at least one value")
    bases = dict(zip(frame["algorithm"].tolist(), frame["base"].tolist(), strict=True))
    lines: dict[str, list[tuple[float, str]]] = {}
    for value, recipe in sorted(points):
        if recipe not in bases:
            raise UnknownName.among("algorithm of these runs", recipe, bases)
        lines.setdefault(bases[recipe] or recipe, []).append((value, recipe))
    return lines


def _line(panel: Axes, frame: Frame, points: list[tuple[float, str]], measure: Measure, style: dict[str, Any]) -> Any:
    runs = [(value, frame.where(algorithm=recipe)[measure]) for value, recipe in points]
    runs = [(value, found) for value, found in runs if len(found)]
    means = [float(found.mean()) for _, found in runs]
    widths = [np.nan_to_num(half_width(found)) for _, found in runs]
    style = {**style, "markevery": None}
    return panel.errorbar([value for value, _ in runs], means, yerr=widths, capsize=2.5, elinewidth=1.0, **style)


def _level(panel: Axes, runs: Frame, measure: Measure, name: str, style: dict[str, Any], drawn: dict[str, Any]) -> None:
    """Mark where the base is, with its confidence interval, if it has run."""
    if len(runs):
        mean, width = float(runs[measure].mean()), half_width(runs[measure])
        drawn[name] = panel.axhline(mean, color=style["color"], linestyle="--", linewidth=1.3)
        if len(runs) > 1:
            panel.axhspan(mean - width, mean + width, color=style["color"], **BAND)
