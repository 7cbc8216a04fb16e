"""Draws with matplotlib, which is imported only when a figure is made: the style of panels, the curves of a ranker, win rates."""

from duelrank.drawing.feature_curves import feature_curves
from duelrank.drawing.style import COLOURS, escape_formulas, figure_class, style_panel
from duelrank.drawing.win_rates import WinRate, win_rates

__all__ = ["COLOURS", "WinRate", "escape_formulas", "feature_curves", "figure_class", "style_panel", "win_rates"]
