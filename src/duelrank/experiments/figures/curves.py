"""What happens while learning: a curve per algorithm over impressions, with its confidence band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from duelrank.errors import InvalidValue
from duelrank.experiments.figures.look import BAND, Labels, dress, family_styles, name_lines, new_figure, one_dataset
from duelrank.experiments.frame import Frame
from duelrank.experiments.significance import half_widths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["over_impressions", "run_curves"]

Column = Literal["offline_curve", "online_curve", "cosine_curve"]


def run_curves(
    frame: Frame,
    column: Column = "offline_curve",
    labels: Labels | None = None,
    skyline: float | None = None,
    skyline_label: str = "offline reference",
    title: str = "",
) -> Figure:
    """Draw a curve per algorithm over impressions, the mean of its runs with a 95% confidence band, one panel per user.

    Parameters
    ----------
    column
        Which curve of the runs.
    labels
        From a recipe to the short name to print for it.
    skyline, skyline_label
        A height to be marked in every panel, such as that of weights learned from all labels, and what it is.
    """
    metric = one_dataset(frame)
    users = list(dict.fromkeys(frame["user"].tolist()))
    styles = family_styles(dict(zip(frame["algorithm"].tolist(), frame["base"].tolist(), strict=True)))
    figure, (panels,) = new_figure(len(users), sharex=True, sharey=True)
    lines: dict[str, Any] = {}
    for panel, user in zip(panels, users, strict=True):
        for (algorithm,), runs in frame.where(user=user).groups("algorithm"):
            lines[algorithm] = _draw(panel, runs, column, styles[algorithm])
        if skyline is not None:
            lines[""] = panel.axhline(skyline, color="0.25", linestyle=(0, (1, 1.5)), linewidth=1.4)
        dress(panel, user)
        over_impressions(panel)
    panels[0].set_ylabel(_meaning(column, metric))
    _stay_possible(panels[0], column)
    if title:
        figure.suptitle(title, fontsize="medium")
    ordered = [name for name in (*styles, "") if name in lines]
    names = [(labels or {}).get(name, name) if name else skyline_label for name in ordered]
    name_lines(figure, [lines[name] for name in ordered], names)
    return figure


def over_impressions(panel: Axes) -> None:
    """Let a panel run over impressions, equal factors equally far apart."""
    panel.set_xlabel("impressions")
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")


def _draw(panel: Axes, runs: Frame, column: str, style: dict[str, Any]) -> Any:
    checkpoints, values = _stack(runs, column)
    mean, width = values.mean(axis=0), half_widths(values)
    (line,) = panel.plot(checkpoints, mean, label=runs["algorithm"][0], **style)
    if len(values) > 1:
        panel.fill_between(checkpoints, mean - width, mean + width, color=style["color"], **BAND)
    return line


def _stack(runs: Frame, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the checkpoints, and the curves as (runs, checkpoints)."""
    runs = runs.sorted("fold", "seed")
    checkpoints: NDArray[np.float64] = runs["checkpoints"][0]
    curves = [curve for curve in runs[column] if len(curve) == len(checkpoints)]
    if len(curves) < len(runs):
        raise InvalidValue(f"{runs['algorithm'][0]} has runs without {column}; it needs a reference when they are made")
    return checkpoints, np.array(curves)


def _stay_possible(panel: Axes, column: str) -> None:
    """Leave out heights that only a confidence band can reach."""
    lowest, highest = {"offline_curve": (0.0, 1.0), "cosine_curve": (-1.0, 1.0)}.get(column, (0.0, np.inf))
    bottom, top = panel.get_ylim()
    panel.set_ylim(max(bottom, lowest), min(top, highest))


def _meaning(column: str, metric: str) -> str:
    return {
        "offline_curve": f"offline {metric}",
        "online_curve": f"online {metric} so far",
        "cosine_curve": "cosine to the reference",
    }[column]
