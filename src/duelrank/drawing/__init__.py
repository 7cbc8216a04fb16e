"""Draws with matplotlib, which is imported only when a figure is made: the style of panels, and the curves of a ranker."""

from duelrank.drawing.feature_curves import feature_curves
from duelrank.drawing.style import COLOURS, escape_formulas, figure_class, style_panel

__all__ = ["COLOURS", "escape_formulas", "feature_curves", "figure_class", "style_panel"]
