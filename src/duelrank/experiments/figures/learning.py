"""The learning curves of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duelrank.experiments.comparison import Comparison
from duelrank.experiments.figures.curves import over_impressions
from duelrank.experiments.figures.look import dress, family_styles, name_lines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["learning_curves"]


def learning_curves(comparison: Comparison, title: str = "") -> Figure:
    """Draw the offline metric over impressions, one panel per user.

    An algorithm and its projections share a colour and a marker; where both are there, the algorithm itself is dashed.
    """
    users = comparison.users
    figure, (panels,) = new_figure(len(users), sharex=True, sharey=True)
    styles = family_styles({curve.algorithm: curve.base or "" for curve in comparison.curves})
    for panel, user in zip(panels, users, strict=True):
        for curve in comparison.curves:
            if curve.user == user:
                panel.plot(curve.impressions, curve.offline, label=curve.algorithm, **styles[curve.algorithm])
        dress(panel, user)
        over_impressions(panel)
    panels[0].set_ylabel(f"offline {comparison.metric}")
    if title:
        figure.suptitle(title, fontsize="medium")
    lines = panels[0].get_lines()
    name_lines(figure, lines, [str(line.get_label()) for line in lines])
    return figure
