"""Draws matplotlib figures from frames; the figures are readable in greyscale print."""

from duelrank.experiments.figures.ablation import Arm, ablation
from duelrank.experiments.figures.curves import CurveColumn, learning_curves
from duelrank.experiments.figures.files import check_target, save, to_svg, write_figure
from duelrank.experiments.figures.performance import performance
from duelrank.experiments.figures.style import figure_class
from duelrank.experiments.figures.sweep import sweep

__all__ = [
    "Arm",
    "CurveColumn",
    "ablation",
    "check_target",
    "figure_class",
    "learning_curves",
    "performance",
    "save",
    "sweep",
    "to_svg",
    "write_figure",
]
